// Ops that regroup or choose rows: lod_reset, sequence_slice, sequence_erase, sequence_enumerate.
#include <algorithm>
#include <cstring>

#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

// --- lod_reset: the rows of X, grouped by the LoD of Y, else by Y's numbers, else by target_lod.

void reset_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  op.set_out_like("Out", x);
  const bool append = op.attr<bool>("append");
  std::vector<int64_t> level;
  Lod lod;
  if (op.has("Y")) {
    const ValueInfo& y = op.in("Y");
    lod = y.lod;
    if (lod.empty() && y.value) {
      const Tensor& numbers = y.value->tensor();
      for (int64_t i = 0; i < numbers.numel(); ++i) {
        level.push_back(static_cast<int64_t>(element_as_double(numbers, i)));
      }
    }
  } else {
    const auto target = op.attr<std::vector<int>>("target_lod");
    if (target.empty()) {
      throw op.error("neither Y nor target_lod is given").fix("give one of them");
    }
    level.assign(target.begin(), target.end());
  }
  if (!level.empty()) {
    lod = append ? x.lod : Lod{};
    lod.push_back(std::move(level));
  }
  const int declared = op.has("Y") ? std::max(op.in("Y").lod_level, 1) : 1;
  // A level that is appended while the program is built stands on levels that are not known yet.
  const bool complete = !append || x.lod_level == 0 || !x.lod.empty();
  if (!lod.empty() && complete && x.shape.rank() > 0) {
    const int64_t rows = x.shape[0].known() ? x.shape.at(0) : 0;
    const std::string problem = lod_problem(lod, rows);
    if (!problem.empty()) {
      throw op.error(cat("the LoD ", to_string(lod), " does not fit X ", x.shape, ": ", problem))
          .fix("give offsets that start at 0, never fall, and end at the number of rows of X");
    }
  }
  set_lod(op, "Out", complete ? std::move(lod) : Lod{}, append ? x.lod_level + 1 : declared);
}

BoundKernel copy(const KernelSite& site, std::string_view from, std::string_view to) {
  const int in = site.position(from), out = site.out_position(to);
  return BoundKernel([=](const KernelArgs& k) {
    const size_t bytes = k.out(out).byte_size();
    if (bytes > 0 && k.out(out).address() != k.in(in).address()) {
      std::memcpy(k.out(out).address(), k.in(in).address(), bytes);
    }
  });
}

// --- sequence_enumerate: for every row the ids from it on, win_size of them.

void require_ids(const OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() == 0 || !x.shape.product(1, x.shape.rank()).may_equal(1)) {
    throw op.error(cat("X has shape ", x.shape, " but holds one id for every row"))
        .fix("give X the shape [rows, 1]");
  }
}

template <class T>
KernelFn enumerate(const KernelSite& site) {
  const int64_t window = site.attr<int>("win_size");
  const auto pad = static_cast<T>(site.attr<int>("pad_value"));
  return [=, offsets = bound_offsets(site, "X")](const KernelArgs& k) {
    const T* x = k.in<T>(0);
    T* out = k.out<T>(0);
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      for (int64_t row = offsets[s]; row < offsets[s + 1]; ++row) {
        for (int64_t j = 0; j < window; ++j) *out++ = row + j < offsets[s + 1] ? x[row + j] : pad;
      }
    }
  };
}

// --- sequence_erase: the rows whose id is not among `tokens`.

// Calls keep(row) for each of them, in order.
template <class F>
void for_each_kept(const Tensor& ids, const std::vector<int>& tokens, F keep) {
  for (int64_t row = 0; row < ids.numel(); ++row) {
    const auto id = static_cast<int64_t>(element_as_double(ids, row));
    if (std::find(tokens.begin(), tokens.end(), id) == tokens.end()) keep(row);
  }
}

void erase_shape(OpView& op) {
  require_ids(op);
  const ValueInfo& x = op.in("X");
  const std::vector<int64_t>* offsets = sequence_offsets(op, "X");
  Shape shape = x.shape;
  shape[0] = Dim();
  Lod lod;
  if (offsets && x.value) {
    RowMap kept;
    for_each_kept(x.value->tensor(), op.attr<std::vector<int>>("tokens"),
                  [&](int64_t row) { kept.push_back(row); });
    lod = x.lod;
    for (int64_t& end : lod.back()) {
      end = std::lower_bound(kept.begin(), kept.end(), end) - kept.begin();
    }
    shape[0] = static_cast<int64_t>(kept.size());
  }
  op.set_out("Out", x.dtype, shape);
  set_lod(op, "Out", std::move(lod), x.lod_level);
}

BoundKernel erase(const KernelSite& site) {
  return BoundKernel([tokens = site.attr<std::vector<int>>("tokens")](const KernelArgs& k) {
    const size_t bytes = size_of(k.in(0).dtype());  // of a row: it is one id
    const auto* from = static_cast<const std::byte*>(k.in(0).address());
    auto* to = static_cast<std::byte*>(k.out(0).address());
    for_each_kept(k.in(0), tokens, [&](int64_t row) {
      std::memcpy(to, from + static_cast<size_t>(row) * bytes, bytes);
      to += bytes;
    });
  });
}

// --- sequence_slice: of sequence i, Length[i] rows from Offset[i] on.

int64_t span_entry(const Tensor& numbers, size_t i) {
  return static_cast<int64_t>(element_as_double(numbers, static_cast<int64_t>(i)));
}

// Calls take(first, rows) for each sequence: which rows of X are kept of it.
template <class F>
void for_each_slice(const std::vector<int64_t>& sequences, const Tensor& offset,
                    const Tensor& count, F take) {
  const auto wanted = static_cast<int64_t>(sequences.size()) - 1;
  if (offset.numel() != wanted || count.numel() != wanted) {
    throw Error(cat("X has ", wanted, " sequences but Offset has ", offset.numel(),
                    " entries and Length ", count.numel()))
        .fix("give one offset and one length for every sequence");
  }
  for (size_t i = 0; i + 1 < sequences.size(); ++i) {
    const int64_t begin = span_entry(offset, i), rows = span_entry(count, i);
    const int64_t length = sequences[i + 1] - sequences[i];
    if (begin < 0 || rows < 0 || begin + rows > length) {
      throw Error(cat("Offset ", begin, " and Length ", rows, " reach outside sequence ", i,
                      ", which has ", length, " rows"))
          .fix("keep Offset + Length within the sequence");
    }
    take(sequences[i] + begin, rows);
  }
}

void sequence_slice_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  Shape shape = x.shape;
  if (shape.rank() == 0) throw op.error("X has no dimensions").fix("give X rows: [rows, ...]");
  shape[0] = Dim();
  Lod lod;
  const std::vector<int64_t>* offsets = sequence_offsets(op, "X");
  if (offsets && op.in("Offset").value && op.in("Length").value) {
    std::vector<int64_t> ends = {0};
    for_each_slice(*offsets, op.in("Offset").value->tensor(), op.in("Length").value->tensor(),
                   [&](int64_t, int64_t rows) { ends.push_back(ends.back() + rows); });
    shape[0] = ends.back();
    lod = {std::move(ends)};
  }
  op.set_out("Out", x.dtype, shape);
  set_lod(op, "Out", std::move(lod), x.lod_level);
}

// Between X and Out, or their gradients: the kept rows stand together in the second.
template <class F>
void move_slices(const KernelArgs& k, const std::vector<int64_t>& sequences, int offset, int count,
                 size_t bytes, F move) {
  size_t at = 0;
  for_each_slice(sequences, k.in(offset), k.in(count), [&](int64_t first, int64_t rows) {
    const size_t size = static_cast<size_t>(rows) * bytes;
    if (size > 0) move(static_cast<size_t>(first) * bytes, at, size);
    at += size;
  });
}

size_t row_bytes(const ValueInfo& info) {
  return static_cast<size_t>(row_width(info.shape)) * size_of(info.dtype);
}

BoundKernel slice(const KernelSite& site) {
  const int offset = site.position("Offset"), count = site.position("Length");
  const size_t bytes = row_bytes(site.in("X"));
  return BoundKernel([=, offsets = bound_offsets(site, "X")](const KernelArgs& k) {
    const auto* from = static_cast<const std::byte*>(k.in(0).address());
    auto* to = static_cast<std::byte*>(k.out(0).address());
    move_slices(k, offsets, offset, count, bytes, [&](size_t in_x, size_t in_out, size_t size) {
      std::memcpy(to + in_out, from + in_x, size);
    });
  });
}

BoundKernel slice_grad(const KernelSite& site) {
  const int offset = site.position("Offset"), count = site.position("Length");
  const int dout = site.position("Out@GRAD");
  const size_t bytes = row_bytes(site.in("X"));
  return BoundKernel([=, offsets = bound_offsets(site, "X")](const KernelArgs& k) {
    const auto* from = static_cast<const std::byte*>(k.in(dout).address());
    auto* to = static_cast<std::byte*>(k.out(0).address());
    if (k.out(0).byte_size() > 0) std::memset(to, 0, k.out(0).byte_size());
    move_slices(k, offsets, offset, count, bytes, [&](size_t in_x, size_t in_out, size_t size) {
      std::memcpy(to + in_x, from + in_out, size);
    });
  });
}

}  // namespace

void register_sequence_lod(Registry& ops) {
  ops.op("lod_reset")
      .doc(
          "The rows of X grouped anew: by the LoD of Y, else by the offsets Y holds, else by "
          "target_lod")
      .in("X", "rows")
      .in_optional("Y", "a tensor with LoD, or offsets as whole numbers")
      .out("Out", "X with the new LoD")
      .attr("target_lod", std::vector<int>{}, "offsets: 0, ..., rows of X")
      .attr("append", false, "add the offsets as a last level to the LoD of X")
      .shape(reset_shape)
      .kernel(untyped([](const KernelSite& s) { return copy(s, "X", "Out"); }))
      .grad({"X"})
      .no_grad({"Y"})
      .grad_kernel(untyped([](const KernelSite& s) { return copy(s, "Out@GRAD", "X@GRAD"); }))
      .inplace("X", "Out")
      .traits({.reads_values = {"Y"}})
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {draw.uniform({6, draw.size(1, 3)})};
        sample.attrs["target_lod"] = std::vector<int>{0, 2, 2, 6};
        return sample;
      })
      .sample([](Draw& draw) {
        OpSample sample;
        const Tensor y = draw_sequences(draw, {1});
        sample.inputs["X"] = {draw.uniform({y.shape()[0], 2})};
        sample.inputs["Y"] = {y};
        return sample;
      });

  ops.op("sequence_slice")
      .doc("Of sequence i, Length[i] rows from Offset[i] on")
      .in("X", "rows in sequences")
      .in("Offset", "the first row kept, one whole number for every sequence")
      .in("Length", "how many rows are kept, one whole number for every sequence")
      .out("Out", "the kept rows")
      .shape(sequence_slice_shape)
      .kernel(untyped(slice))
      .grad({"X", "Offset", "Length"})
      .no_grad({"Offset", "Length"})
      .grad_kernel(untyped(slice_grad))
      .traits({.can_fail = true, .reads_values = {"Offset", "Length"}})
      .sample([](Draw& draw) {
        OpSample sample;
        const Tensor x = draw_sequences(draw, {2}, {.allow_empty = false});
        std::vector<int64_t> begins, counts;
        for (size_t i = 0; i + 1 < x.lod()[0].size(); ++i) {
          begins.push_back(draw.size(0, lengths_from_lod(x.lod())[0][i] - 1));
          counts.push_back(draw.size(1, lengths_from_lod(x.lod())[0][i] - begins.back()));
        }
        sample.inputs["X"] = {x};
        sample.inputs["Offset"] = {make_tensor<int64_t>({3, 1}, begins)};
        sample.inputs["Length"] = {make_tensor<int64_t>({3, 1}, counts)};
        return sample;
      });

  ops.op("sequence_enumerate")
      .doc(
          "For every row the win_size ids that start there, filled up with pad_value at the end "
          "of its sequence")
      .in("X", "ids in sequences, [rows, 1]")
      .out("Out", "[rows, win_size], the LoD of X")
      .required_attr<int>("win_size", "how many ids")
      .at_least(1)
      .attr("pad_value", 0, "fills up")
      .shape([](OpView& op) {
        require_ids(op);
        sequence_offsets(op, "X");
        op.set_out("Out", op.in("X").dtype, {op.in("X").shape[0], op.attr<int>("win_size")});
        op.share_lod("X", "Out");
      })
      .kernel(
          typed<int64_t, int32_t>([]<class T>(const KernelSite& s) { return enumerate<T>(s); }));

  ops.op("sequence_erase")
      .doc("The rows whose id is not among tokens")
      .in("X", "ids in sequences, [rows, 1]")
      .out("Out", "the kept rows; sequences get shorter")
      .required_attr<std::vector<int>>("tokens", "the ids to leave out")
      .shape(erase_shape)
      .kernel(untyped(erase))
      .traits({.reads_values = {"X"}});
}

}  // namespace trireme
