// What click models do with their inputs: cvm, hash, filter_by_instag.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

// ---- cvm

constexpr int64_t kClickColumns = 2;  // shows and clicks stand first

void cvm_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &clicks = op.in("CVM");
  require_floating(op, "X");
  if (x.shape.rank() != 2 || clicks.shape.rank() != 2 || !clicks.shape[1].may_equal(2) ||
      (x.shape[1].known() && x.shape.at(1) < kClickColumns)) {
    throw op.error(cat("X has shape ", x.shape, " and CVM ", clicks.shape))
        .fix("give X [rows, 2 + width] and CVM [rows, 2]");
  }
  op.set_out_like("Y", x);
  if (op.wants("Y") && !op.attr<bool>("use_cvm")) {
    op.out("Y").shape[1] = x.shape[1] - Dim(kClickColumns);
  }
}

template <class T>
BoundKernel cvm(const KernelSite& site) {
  const int64_t rows = site.in("X").shape.at(0), width = site.in("X").shape.at(1);
  const int x_at = site.position("X");
  const bool keeps = site.attr<bool>("use_cvm");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows);
        for (int64_t row = begin; row < end; ++row) {
          const T* x = k.in<T>(x_at) + row * width;
          T* y = k.out<T>(0) + row * (keeps ? width : width - kClickColumns);
          if (!keeps) {
            std::copy(x + kClickColumns, x + width, y);
            continue;
          }
          std::copy(x, x + width, y);
          y[0] = std::log(x[0] + 1);
          y[1] = std::log(x[1] + 1) - y[0];
        }
      },
      parts_for(rows * width));
}

// The gradient of the first two columns is what was shown and clicked, not a derivative: the table
// that learns the rows counts with it.
template <class T>
BoundKernel cvm_grad(const KernelSite& site) {
  const int64_t rows = site.in("X").shape.at(0), width = site.in("X").shape.at(1);
  const int click_at = site.position("CVM"), grad_at = site.position("Y@GRAD");
  const bool keeps = site.attr<bool>("use_cvm");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows);
        const int64_t own = keeps ? width : width - kClickColumns;
        for (int64_t row = begin; row < end; ++row) {
          T* to = k.out<T>(0) + row * width;
          const T* from = k.in<T>(grad_at) + row * own + (keeps ? kClickColumns : 0);
          std::copy_n(from, width - kClickColumns, to + kClickColumns);
          std::copy_n(k.in<T>(click_at) + row * kClickColumns, kClickColumns, to);
        }
      },
      parts_for(rows * width));
}

// ---- hash: XXH64, whose steps its specification lists

constexpr uint64_t kPrimes[] = {0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                                0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5};

template <class Word>
Word word_at(const unsigned char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

uint64_t stirred(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrimes[1], 31) * kPrimes[0];
}

uint64_t xxh64(const unsigned char* bytes, size_t count, uint64_t seed) {
  const unsigned char* const end = bytes + count;
  uint64_t sum = seed + kPrimes[4];
  if (count >= 32) {
    uint64_t lanes[] = {seed + kPrimes[0] + kPrimes[1], seed + kPrimes[1], seed, seed - kPrimes[0]};
    for (; end - bytes >= 32; bytes += 32) {
      for (size_t i = 0; i < 4; ++i) lanes[i] = stirred(lanes[i], word_at<uint64_t>(bytes + 8 * i));
    }
    sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
          std::rotl(lanes[3], 18);
    for (const uint64_t lane : lanes) sum = (sum ^ stirred(0, lane)) * kPrimes[0] + kPrimes[3];
  }
  sum += count;
  for (; end - bytes >= 8; bytes += 8) {
    sum = std::rotl(sum ^ stirred(0, word_at<uint64_t>(bytes)), 27) * kPrimes[0] + kPrimes[3];
  }
  for (; end - bytes >= 4; bytes += 4) {
    sum = std::rotl(sum ^ word_at<uint32_t>(bytes) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
  }
  for (; bytes < end; ++bytes) sum = std::rotl(sum ^ *bytes * kPrimes[4], 11) * kPrimes[0];
  sum = (sum ^ sum >> 33) * kPrimes[1];
  sum = (sum ^ sum >> 29) * kPrimes[2];
  return sum ^ sum >> 32;
}

void hash_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.known && x.dtype != DType::int32 && x.dtype != DType::int64) {
    throw Error(ErrorKind::type_mismatch, cat("X holds ", name_of(x.dtype))).fix("cast X to int64");
  }
  if (x.shape.rank() != 2) {
    throw op.error(cat("X has shape ", x.shape)).fix("give [rows, numbers]");
  }
  op.set_out("Out", x.dtype, {x.shape[0], op.attr<int32_t>("num_hash"), 1});
  op.share_lod("X", "Out");
}

template <class T>
BoundKernel hash_rows(const KernelSite& site) {
  const int64_t rows = site.in("X").shape.at(0), width = site.in("X").shape.at(1);
  const int64_t hashes = site.attr<int32_t>("num_hash");
  const auto below = static_cast<uint64_t>(site.attr<int64_t>("mod_by"));
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows * hashes);
        for (int64_t at = begin; at < end; ++at) {
          const auto* row =
              reinterpret_cast<const unsigned char*>(k.in<T>(0) + at / hashes * width);
          const uint64_t number = xxh64(row, sizeof(T) * static_cast<size_t>(width),
                                        static_cast<uint64_t>(at % hashes));
          k.out<T>(0)[at] = static_cast<T>(number % below);
        }
      },
      parts_for(rows * hashes * (width + 8)));
}

// ---- filter_by_instag

void instag_shape(OpView& op) {
  const ValueInfo& ins = op.in("Ins");
  require_floating(op, "Ins");
  for (const char* slot : {"Ins_tag", "Filter_tag"}) {
    const ValueInfo& tags = op.in(slot);
    if (!tags.known || tags.dtype == DType::int64) continue;
    throw Error(ErrorKind::type_mismatch, cat(slot, " holds ", name_of(tags.dtype)))
        .fix(cat("cast ", slot, " to int64"));
  }
  Shape out = ins.shape;
  if (out.rank() == 0) throw op.error("Ins has no dimensions").fix("give [rows, ...]");
  out[0] = Dim();
  op.set_out("Out", ins.dtype, out);
  op.set_out("LossWeight", DType::float32, {Dim(), 1});
  op.set_out("IndexMap", DType::int64, {Dim(), 3});
  for (const char* slot : {"Out", "LossWeight", "IndexMap"}) set_lod(op, slot, {}, 1);
}

// Instances, rows or sequences of rows, that have one of the wanted tags. IndexMap says of each
// where it begins in Out, where in Ins, and how many rows it has.
template <class T>
BoundKernel instag(const KernelSite& site) {
  const ValueInfo& ins = site.in("Ins");
  const int64_t rows = ins.shape.at(0), width = row_width(ins.shape);
  std::vector<int64_t> ends(static_cast<size_t>(rows) + 1);
  for (size_t i = 0; i < ends.size(); ++i) ends[i] = static_cast<int64_t>(i);
  if (site.attr<bool>("is_lod")) ends = bound_offsets(site, "Ins");
  const std::vector<int64_t> tag_ends = bound_offsets(site, "Ins_tag");
  if (tag_ends.size() != ends.size()) {
    throw site
        .error(cat("Ins has ", ends.size() - 1, " instances but Ins_tag has tags of ",
                   tag_ends.size() - 1))
        .fix("give a sequence of tags for every instance");
  }
  const int ins_at = site.position("Ins"), tag_at = site.position("Ins_tag");
  const int wanted_at = site.position("Filter_tag");
  const int out_at = site.out_position("Out"), weight_at = site.out_position("LossWeight");
  const int map_at = site.out_position("IndexMap");
  const auto empty = static_cast<T>(site.attr<int64_t>("out_val_if_empty"));
  return [=, shape = ins.shape](const KernelArgs& k) {
    const auto* wanted = k.in<int64_t>(wanted_at);
    const int64_t wanted_count = k.in(wanted_at).numel();
    std::vector<T> out;
    std::vector<int64_t> map;
    Lod lod = {{0}}, each = {{0}};
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const auto* tags = k.in<int64_t>(tag_at);
      const bool found = std::any_of(tags + tag_ends[i], tags + tag_ends[i + 1], [&](int64_t tag) {
        return std::find(wanted, wanted + wanted_count, tag) != wanted + wanted_count;
      });
      if (!found) continue;
      map.insert(map.end(), {lod[0].back(), ends[i], ends[i + 1] - ends[i]});
      out.insert(out.end(), k.in<T>(ins_at) + ends[i] * width,
                 k.in<T>(ins_at) + ends[i + 1] * width);
      lod[0].push_back(lod[0].back() + ends[i + 1] - ends[i]);
      each[0].push_back(each[0].back() + 1);
    }
    std::vector<float> weights(map.size() / 3, 1.0f);
    if (map.empty()) {  // one row that counts for nothing
      out.assign(static_cast<size_t>(width), empty);
      weights = {0.0f};
      map = {0, 0, 1};
      lod = each = {{0, 1}};
    }
    Shape out_shape = shape;
    out_shape[0] = lod[0].back();
    const auto count = static_cast<int64_t>(weights.size());
    const auto give = [&]<class V>(int at, const Shape& to, const std::vector<V>& values,
                                   const Lod& sequences) {
      if (!k.has_out(at)) return;
      k.out(at) = make_tensor<V>(to, std::span<const V>(values));
      k.out(at).set_lod(sequences);
    };
    give(out_at, out_shape, out, lod);
    give(weight_at, {count, 1}, weights, each);
    give(map_at, {count, 3}, map, each);
  };
}

template <class T>
BoundKernel instag_grad(const KernelSite& site) {
  const Shape shape = site.in("Ins").shape;
  const int64_t width = row_width(shape);
  const int weight_at = site.position("LossWeight"), map_at = site.position("IndexMap");
  const int grad_at = site.position("Out@GRAD");
  return [=](const KernelArgs& k) {
    std::vector<T> to(static_cast<size_t>(shape.count()));
    const int64_t count = k.in(map_at).shape().at(0);
    for (int64_t i = 0; i < count; ++i) {
      if (k.in<float>(weight_at)[i] == 0) continue;  // nothing was found
      const int64_t* map = k.in<int64_t>(map_at) + 3 * i;
      std::copy_n(k.in<T>(grad_at) + map[0] * width, map[2] * width, to.data() + map[1] * width);
    }
    k.out(0) = make_tensor<T>(shape, std::span<const T>(to));
  };
}

void register_instag(Registry& ops) {
  ops.op("filter_by_instag")
      .doc("Instances that have one of the wanted tags")
      .in("Ins", "[rows, ...]: instances are rows, or with is_lod sequences")
      .in("Ins_tag", "int64: the tags of each instance, in sequences")
      .in("Filter_tag", "int64: the wanted tags")
      .out("Out", "the instances that have one; a row where none has")
      .out("LossWeight", "[instances, 1]: 1; 0 for the row that stands for none")
      .out("IndexMap", "int64 [instances, 3]: first row in Out, in Ins, number of rows")
      .required_attr<bool>("is_lod", "instances are sequences")
      .attr("out_val_if_empty", int64_t{0}, "what the row holds that stands for none")
      .shape(instag_shape)
      .traits({.host = true})
      .kernel(typed_by<float, double>(
          "Ins", []<class T>(const KernelSite& site) { return instag<T>(site); }))
      .grad({"Ins", "LossWeight", "IndexMap"})
      .grad_outs({"Out"})
      .no_grad({"Ins_tag", "Filter_tag"})
      .grad_kernel(typed_by<float, double>(
          "Ins", []<class T>(const KernelSite& site) { return instag_grad<T>(site); }))
      .sample([](Draw& d) {
        OpSample sample;
        Tensor ins = draw_sequences(d, {2}, {.sequences = 3, .allow_empty = false});
        Tensor tags = d.ints({3, 1}, 0, 1);
        tags.set_lod({{0, 1, 2, 3}});
        sample.inputs = {{"Ins", {ins}}, {"Ins_tag", {tags}}, {"Filter_tag", {d.ints({1}, 1, 1)}}};
        sample.attrs = {{"is_lod", true}};
        return sample;
      });
}

}  // namespace

void register_click_models(Registry& ops) {
  ops.op("cvm")
      .doc("Rows that begin with shows and clicks: their logarithms, or without them")
      .in("X", "[rows, 2 + width]: shows, clicks, then what is learned")
      .in("CVM", "[rows, 2]: what the gradient of the first two columns is")
      .out("Y", "with use_cvm log(shows + 1) and log(clicks + 1) less that, then the rest of X")
      .attr("use_cvm", true, "keep the first two columns")
      .shape(cvm_shape)
      .kernel(typed_by<float, double>("X",
                                      []<class T>(const KernelSite& site) { return cvm<T>(site); }))
      .grad({"X", "CVM"})
      .no_grad({"CVM"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return cvm_grad<T>(site); }))
      // With nothing shown, and the columns left out, the gradient is a derivative.
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.uniform({3, 5}, 0, 1)}}, {"CVM", {d.uniform({3, 2}, 0, 0)}}},
            .attrs = {{"use_cvm", false}}};
      });
  ops.op("hash")
      .doc("Numbers of rows, the same for equal rows: XXH64 with several seeds")
      .in("X", "int32 or int64 [rows, numbers]")
      .out("Out", "[rows, num_hash, 1]: from 0 to mod_by, not included")
      .attr("num_hash", 1, "how many numbers of a row; their seeds are 0, 1, ...")
      .at_least(1)
      .attr("mod_by", int64_t{100000}, "how many different numbers there are")
      .at_least(1)
      .shape(hash_shape)
      .kernel(typed_by<int32_t, int64_t>(
          "X", []<class T>(const KernelSite& site) { return hash_rows<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.ints({4, 3}, 0, 99)}}},
                        .attrs = {{"num_hash", int32_t{2}}, {"mod_by", int64_t{1000}}}};
      });
  register_instag(ops);
}

}  // namespace trireme
