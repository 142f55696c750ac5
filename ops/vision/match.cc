// Boxes of images and boxes of a detector matched: bipartite_match, target_assign,
// mine_hard_examples.
#include <algorithm>
#include <cstring>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/scratch.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

std::vector<int64_t> image_ends(const ValueInfo& value) {
  return value.lod.empty() ? std::vector<int64_t>{0, value.shape.at(0)} : value.lod.back();
}

// ---- bipartite_match

void match_shape(OpView& op) {
  const ValueInfo& distances = op.in("DistMat");
  require_floating(op, "DistMat");
  if (distances.shape.rank() != 2) {
    throw op.error(cat("DistMat has shape ", distances.shape)).fix("give [rows, columns]");
  }
  Dim images = 1;
  if (!distances.lod.empty()) images = static_cast<int64_t>(distances.lod.back().size()) - 1;
  if (distances.lod.empty() && distances.lod_level > 0) images = Dim();
  op.set_out("ColToRowMatchIndices", DType::int32, {images, distances.shape[1]});
  op.set_out("ColToRowMatchDist", distances.dtype, {images, distances.shape[1]});
}

// A row and a column of one image, by where they meet.
template <class T>
struct MatchPair {
  int64_t at;
  T distance;
};

// Memory of a run: pairs of the largest image, and which of its rows are taken.
template <class T>
struct MatchRoom {
  MatchPair<T>* pairs;
  bool* taken;
};

// Pairs by their distance, the largest first; each row and each column is taken once. With
// per_prediction, columns that are left take the row they are nearest to, if it is near enough.
template <class T>
void match_image(const T* distances, int64_t rows, int64_t columns, bool all, T least,
                 const MatchRoom<T>& room, int32_t* match, T* distance) {
  MatchPair<T>* end = room.pairs;
  for (int64_t i = 0; i < rows * columns; ++i) {
    if (distances[i] >= static_cast<T>(1e-6)) *end++ = {i, distances[i]};
  }
  std::sort(room.pairs, end, [](const MatchPair<T>& a, const MatchPair<T>& b) {
    return a.distance != b.distance ? a.distance > b.distance : a.at < b.at;
  });
  std::fill_n(match, columns, -1);
  std::fill_n(distance, columns, T{0});
  std::fill_n(room.taken, rows, false);
  for (const MatchPair<T>* pair = room.pairs; pair != end; ++pair) {
    const int64_t row = pair->at / columns, column = pair->at % columns;
    if (match[column] >= 0 || room.taken[row]) continue;
    match[column] = static_cast<int32_t>(row);
    distance[column] = pair->distance;
    room.taken[row] = true;
  }
  for (int64_t column = 0; all && column < columns; ++column) {
    if (match[column] >= 0) continue;
    for (int64_t row = 0; row < rows; ++row) {
      const T one = distances[row * columns + column];
      if (one < static_cast<T>(1e-6) || one < least || one <= distance[column]) continue;
      match[column] = static_cast<int32_t>(row);
      distance[column] = one;
    }
  }
}

template <class T>
BoundKernel match_kernel(const KernelSite& site) {
  const int64_t columns = site.in("DistMat").shape.at(1);
  const std::vector<int64_t> ends = image_ends(site.in("DistMat"));
  const bool all = site.attr<std::string>("match_type") == "per_prediction";
  const auto least = static_cast<T>(site.attr<float>("dist_threshold"));
  int64_t most = 0;
  for (size_t n = 0; n + 1 < ends.size(); ++n) most = std::max(most, ends[n + 1] - ends[n]);
  const auto room = [=](Scratch& scratch) {
    MatchRoom<T> made{};
    made.pairs = scratch.take<MatchPair<T>>(most * columns);
    made.taken = scratch.take<bool>(most);
    return made;
  };
  BoundKernel kernel([=](const KernelArgs& k) {
    Scratch scratch(k.scratch);
    const MatchRoom<T> own = room(scratch);
    for (size_t n = 0; n + 1 < ends.size(); ++n) {
      const int64_t at = static_cast<int64_t>(n) * columns;
      match_image(k.in<T>(0) + ends[n] * columns, ends[n + 1] - ends[n], columns, all, least, own,
                  k.out<int32_t>(0) + at, k.out<T>(1) + at);
    }
  });
  Scratch counted;
  room(counted);
  kernel.scratch = counted.bytes();
  return kernel;
}

// ---- target_assign

void assign_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &match = op.in("MatchIndices");
  if (x.shape.rank() != 3 || match.shape.rank() != 2) {
    throw op.error(cat("X has shape ", x.shape, " and MatchIndices ", match.shape))
        .fix("give X [rows, 1 or columns, width] in sequences and MatchIndices [images, columns]");
  }
  op.set_out("Out", x.dtype, {match.shape[0], match.shape[1], x.shape[2]});
  op.set_out("OutWeight", DType::float32, {match.shape[0], match.shape[1], 1});
}

template <class T>
BoundKernel assign_kernel(const KernelSite& site) {
  const Shape x = site.in("X").shape, match = site.in("MatchIndices").shape;
  const std::vector<int64_t> ends = image_ends(site.in("X"));
  std::vector<int64_t> negatives;
  if (site.has("NegIndices")) negatives = image_ends(site.in("NegIndices"));
  if (static_cast<int64_t>(ends.size()) != match.at(0) + 1 ||
      (!negatives.empty() && negatives.size() != ends.size())) {
    throw site
        .error(cat("X has rows of ", ends.size() - 1, " images but MatchIndices ", match.at(0)))
        .fix("give X, and NegIndices where it is there, one sequence for every image");
  }
  const auto other = static_cast<T>(site.attr<int32_t>("mismatch_value"));
  const int x_at = site.position("X"), match_at = site.position("MatchIndices");
  const int negatives_at = site.position("NegIndices"), weight_at = site.out_position("OutWeight");
  return [=](const KernelArgs& k) {
    const int64_t columns = match.at(1), width = x.at(2);
    for (int64_t n = 0; n < match.at(0); ++n) {
      const auto image = static_cast<size_t>(n);
      for (int64_t j = 0; j < columns; ++j) {
        const int32_t row = k.in<int32_t>(match_at)[n * columns + j];
        T* to = k.out<T>(0) + (n * columns + j) * width;
        k.out<float>(weight_at)[n * columns + j] = row >= 0 ? 1.0f : 0.0f;
        if (row < 0) {
          std::fill_n(to, width, other);
        } else {
          const int64_t from = ((ends[image] + row) * x.at(1) + j % x.at(1)) * width;
          std::copy_n(k.in<T>(x_at) + from, width, to);
        }
      }
      if (negatives.empty()) continue;
      for (int64_t i = negatives[image]; i < negatives[image + 1]; ++i) {
        const int64_t at = n * columns + k.in<int32_t>(negatives_at)[i];
        std::fill_n(k.out<T>(0) + at * width, width, other);
        k.out<float>(weight_at)[at] = 1.0f;
      }
    }
  };
}

// ---- mine_hard_examples

void mine_shape(OpView& op) {
  const ValueInfo &loss = op.in("ClsLoss"), &match = op.in("MatchIndices");
  require_floating(op, "ClsLoss");
  if (match.shape.rank() != 2 || !loss.shape.may_equal(match.shape) ||
      !op.in("MatchDist").shape.may_equal(match.shape)) {
    throw op
        .error(cat("ClsLoss has shape ", loss.shape, ", MatchIndices ", match.shape,
                   " and MatchDist ", op.in("MatchDist").shape))
        .fix("give all three [images, priors]");
  }
  const bool hard = op.attr<std::string>("mining_type") == "hard_example";
  if (hard && (!op.has("LocLoss") || op.attr<int32_t>("sample_size") < 1)) {
    throw op
        .error(
            cat("mining_type is hard_example with sample_size ", op.attr<int32_t>("sample_size")))
        .fix("give LocLoss and a sample_size above 0");
  }
  op.set_out("NegIndices", DType::int32, {Dim(), 1});
  set_lod(op, "NegIndices", {}, 1);
  op.set_out("UpdatedMatchIndices", DType::int32, match.shape);
}

template <class T>
BoundKernel mine_kernel(const KernelSite& site) {
  const Shape shape = site.in("MatchIndices").shape;
  const bool hard = site.attr<std::string>("mining_type") == "hard_example";
  const double ratio = site.attr<float>("neg_pos_ratio"),
               far = site.attr<float>("neg_dist_threshold");
  const int64_t sample = site.attr<int32_t>("sample_size");
  const int cls = site.position("ClsLoss"), loc = site.position("LocLoss");
  const int match_at = site.position("MatchIndices"), dist_at = site.position("MatchDist");
  const int negatives_at = site.out_position("NegIndices");
  const int updated_at = site.out_position("UpdatedMatchIndices");
  return [=](const KernelArgs& k) {
    std::vector<int32_t> negatives;
    Lod lod = {{0}};
    k.out(updated_at) = k.in(match_at).clone();
    for (int64_t n = 0; n < shape.at(0); ++n) {
      const int64_t first = n * shape.at(1);
      const int32_t* match = k.in<int32_t>(match_at) + first;
      int32_t* updated = k.out<int32_t>(updated_at) + first;
      std::vector<std::pair<T, int32_t>> losses;
      int64_t positives = 0;
      for (int32_t j = 0; j < shape.at(1); ++j) {
        positives += match[j] >= 0;
        if (!hard && (match[j] >= 0 || k.in<T>(dist_at)[first + j] >= far)) continue;
        T loss = k.in<T>(cls)[first + j];
        if (hard) loss += k.in<T>(loc)[first + j];
        losses.emplace_back(loss, j);
      }
      const auto there = static_cast<int64_t>(losses.size());
      const int64_t wanted = std::min(
          hard ? sample : static_cast<int64_t>(static_cast<double>(positives) * ratio), there);
      std::stable_sort(losses.begin(), losses.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
      std::vector<bool> chosen(static_cast<size_t>(shape.at(1)));
      for (int64_t i = 0; i < wanted; ++i) {
        chosen[static_cast<size_t>(losses[static_cast<size_t>(i)].second)] = true;
      }
      for (int32_t j = 0; j < shape.at(1); ++j) {
        const bool is = chosen[static_cast<size_t>(j)];
        if (is && match[j] < 0) negatives.push_back(j);
        if (hard && !is) updated[j] = -1;
      }
      lod[0].push_back(static_cast<int64_t>(negatives.size()));
    }
    k.out(negatives_at) = make_tensor<int32_t>({static_cast<int64_t>(negatives.size()), 1},
                                               std::span<const int32_t>(negatives));
    k.out(negatives_at).set_lod(lod);
  };
}

Tensor in_images(Tensor rows, std::vector<int64_t> ends) {
  rows.set_lod({std::move(ends)});
  return rows;
}

}  // namespace

void register_match(Registry& ops) {
  ops.op("bipartite_match")
      .doc("Rows and columns of a matrix paired, nearest first")
      .in("DistMat", "[rows, columns], in a sequence of rows for each image; larger is nearer")
      .out("ColToRowMatchIndices", "int32 [images, columns]: the row in its image; -1: none")
      .out("ColToRowMatchDist", "[images, columns]: the distance to it")
      .attr("match_type", "bipartite", "per_prediction: columns that are left take a row as well")
      .one_of({"bipartite", "per_prediction"})
      .attr("dist_threshold", 0.5f, "how near that row must be")
      .shape(match_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return match_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"DistMat", {in_images(d.uniform({3, 4}, 0, 1), {0, 1, 3})}}}};
      });
  ops.op("target_assign")
      .doc("For every column the row that it was matched with")
      .in("X", "[rows, 1 or columns, width], in a sequence of rows for each image")
      .in("MatchIndices", "int32 [images, columns]: the row in its image; -1: none")
      .in_optional("NegIndices", "int32 [n, 1], a sequence for each image: columns that count too")
      .out("Out", "[images, columns, width]: the row, or mismatch_value")
      .out("OutWeight", "[images, columns, 1]: 1 where there is a row, and at NegIndices")
      .attr("mismatch_value", 0, "what stands where there is no row")
      .shape(assign_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "X", []<class T>(const KernelSite& site) { return assign_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {in_images(d.uniform({3, 4, 2}), {0, 1, 3})}},
                       {"MatchIndices", {d.ints({2, 4}, -1, 0, DType::int32)}},
                       {"NegIndices", {in_images(d.ints({3, 1}, 0, 3, DType::int32), {0, 2, 3})}}}};
      });
  ops.op("mine_hard_examples")
      .doc("Unmatched columns with the largest losses, a few for each that is matched")
      .in("ClsLoss", "[images, priors]")
      .in_optional("LocLoss", "[images, priors]; hard_example adds it")
      .in("MatchIndices", "int32 [images, priors]; -1: none")
      .in("MatchDist", "[images, priors]")
      .out("NegIndices", "int32 [n, 1]: the columns, a sequence for each image")
      .out("UpdatedMatchIndices", "MatchIndices, with hard_example -1 where not chosen")
      .attr("neg_pos_ratio", 1.0f, "max_negative: how many for each that is matched")
      .attr("neg_dist_threshold", 0.5f, "max_negative: only those that are farther")
      .attr("sample_size", 0, "hard_example: how many of an image")
      .attr("mining_type", "max_negative", "which rule")
      .one_of({"max_negative", "hard_example"})
      .shape(mine_shape)
      .traits({.host = true})
      .kernel(typed_by<float, double>(
          "ClsLoss", []<class T>(const KernelSite& site) { return mine_kernel<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"ClsLoss", {d.uniform({2, 4})}},
                                   {"MatchIndices", {d.ints({2, 4}, -1, 0, DType::int32)}},
                                   {"MatchDist", {d.uniform({2, 4}, 0, 1)}}}};
      });
}

}  // namespace trireme
