// Between sequences and padded tensors: sequence_pad, sequence_unpad, sequence_mask.
#include <algorithm>
#include <cstring>

#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

int64_t length_entry(const Tensor& numbers, int64_t i) {
  return static_cast<int64_t>(element_as_double(numbers, i));
}

// --- sequence_pad

void sequence_pad_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() == 0) throw op.error("X has no dimensions").fix("give X rows: [rows, ...]");
  Shape row = x.shape;
  row.erase(0);
  const Shape& pad = op.in("PadValue").shape;
  if (!pad.numel().may_equal(1) && !pad.may_equal(row)) {
    throw op.error(cat("PadValue has shape ", pad, " but a row of X has ", row))
        .fix(cat("give PadValue the shape [1] or ", row));
  }
  const int64_t padded = op.attr<int>("padded_length");
  Dim sequences, longest = padded > 0 ? Dim(padded) : Dim();
  if (const std::vector<int64_t>* offsets = sequence_offsets(op, "X")) {
    int64_t most = 0;
    for (size_t i = 1; i < offsets->size(); ++i) {
      most = std::max(most, (*offsets)[i] - (*offsets)[i - 1]);
    }
    if (padded > 0 && padded < most) {
      throw op.error(cat("padded_length is ", padded, " but a sequence of X has ", most, " rows"))
          .fix(cat("give a padded_length of at least ", most, ", or -1 for the longest"));
    }
    if (padded <= 0) longest = most;
    sequences = static_cast<int64_t>(offsets->size()) - 1;
  }
  op.set_out("Length", DType::int64, {sequences});
  row.insert(0, longest);
  row.insert(0, sequences);
  op.set_out("Out", x.dtype, row);
  set_lod(op, "Out", outer_levels(x.lod), 0);
  set_lod(op, "Length", outer_levels(x.lod), 0);
}

BoundKernel pad(const KernelSite& site) {
  const int x = site.position("X"), value = site.position("PadValue");
  const int out = site.out_position("Out"), length = site.out_position("Length");
  const int64_t longest = site.out("Out").shape.at(1);
  const bool one_number = site.in("PadValue").shape.count() == 1;
  return BoundKernel([=, offsets = bound_offsets(site, "X")](const KernelArgs& k) {
    const Tensor& from = k.in(x);
    const Tensor& filling = k.in(value);
    const size_t row = static_cast<size_t>(row_width(from.shape())) * size_of(from.dtype());
    const size_t unit = one_number ? size_of(from.dtype()) : row;
    auto* to = static_cast<std::byte*>(k.out(out).address());
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      const int64_t rows = offsets[s + 1] - offsets[s];
      if (k.has_out(length)) k.out<int64_t>(length)[s] = rows;
      const size_t bytes = static_cast<size_t>(rows) * row;
      const auto* source = static_cast<const std::byte*>(from.address());
      if (bytes > 0) std::memcpy(to, source + static_cast<size_t>(offsets[s]) * row, bytes);
      std::byte* const end = to + static_cast<size_t>(longest) * row;
      for (to += bytes; to < end; to += unit) std::memcpy(to, filling.address(), unit);
    }
  });
}

// Row t of sequence s stands at row s * longest + t of the padded tensor.
BoundKernel pad_grad(const KernelSite& site) {
  const std::vector<int64_t> offsets = bound_offsets(site, "X");
  const int64_t longest = site.in("Out@GRAD").shape.at(1);
  RowMap map;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t t = 0; t < offsets[s + 1] - offsets[s]; ++t) {
      map.push_back(static_cast<int64_t>(s) * longest + t);
    }
  }
  return gather_rows(site.position("Out@GRAD"), 0, std::move(map));
}

// --- sequence_unpad

void unpad_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() < 2) {
    throw op.error(cat("X has shape ", x.shape, " but must be [sequences, longest, ...]"))
        .fix("give X at least two dimensions");
  }
  Shape shape = x.shape;
  shape.erase(0);
  shape[0] = Dim();
  if (shape.rank() == 1) shape.push_back(1);
  Lod lod;
  if (op.in("Length").value) {
    const Tensor& lengths = op.in("Length").value->tensor();
    if (lengths.numel() != x.shape.at(0)) {
      throw op
          .error(
              cat("Length has ", lengths.numel(), " entries but X has ", x.shape[0], " sequences"))
          .fix("give one length for every sequence");
    }
    lod = {{0}};
    for (int64_t s = 0; s < lengths.numel(); ++s) {
      const int64_t rows = length_entry(lengths, s);
      if (rows < 0 || rows > x.shape.at(1)) {
        throw op.error(cat("Length[", s, "] is ", rows, " but X is padded to ", x.shape[1]))
            .fix(cat("give lengths from 0 to ", x.shape[1]));
      }
      lod[0].push_back(lod[0].back() + rows);
    }
    shape[0] = lod[0].back();
  }
  op.set_out("Out", x.dtype, shape);
  set_lod(op, "Out", std::move(lod), 1);
}

BoundKernel unpad(const KernelSite& site) {
  const int64_t longest = site.in("X").shape.at(1);
  const Lod& lod = site.out("Out").lod;
  promise(!lod.empty(), "the lengths are known where sequence_unpad is bound");
  RowMap map;
  for (size_t s = 0; s + 1 < lod[0].size(); ++s) {
    for (int64_t t = 0; t < lod[0][s + 1] - lod[0][s]; ++t) {
      map.push_back(static_cast<int64_t>(s) * longest + t);
    }
  }
  return gather_rows(0, 0, std::move(map));
}

// The lengths are those of the gradient that arrives: it has the LoD of Out.
BoundKernel unpad_grad(const KernelSite& site) {
  const std::vector<int64_t> offsets = bound_offsets(site, "Out@GRAD");
  const Shape& x = site.in("X").shape;
  RowMap map(static_cast<size_t>(x.at(0) * x.at(1)), kNoRow);
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t t = 0; t < offsets[s + 1] - offsets[s]; ++t) {
      map[s * static_cast<size_t>(x.at(1)) + static_cast<size_t>(t)] = offsets[s] + t;
    }
  }
  return gather_rows(site.position("Out@GRAD"), 0, std::move(map));
}

// --- sequence_mask

DType mask_dtype(const OpView& op) {
  const int number = op.attr<int>("out_dtype");
  const std::optional<DType> dtype = dtype_from_wire(number);
  if (!dtype) {
    throw op.error(cat("out_dtype is ", number, ", which is no element type"))
        .fix("choose int64 (3), int32 (2), bool (0), float32 (5) or float64 (6)");
  }
  return *dtype;
}

// The last extent: MaxLenTensor, or maxlen, or the largest of X.
void mask_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  Dim longest;
  if (op.has("MaxLenTensor")) {
    if (op.in("MaxLenTensor").value) {
      const int64_t given = length_entry(op.in("MaxLenTensor").value->tensor(), 0);
      if (given < 0) {
        throw op.error(cat("MaxLenTensor holds ", given)).fix("give a length of 0 or more");
      }
      longest = given;
    }
  } else if (op.attr<int>("maxlen") >= 0) {
    longest = op.attr<int>("maxlen");
  } else if (x.value) {
    const Tensor& lengths = x.value->tensor();
    int64_t most = 0;
    for (int64_t i = 0; i < lengths.numel(); ++i) most = std::max(most, length_entry(lengths, i));
    longest = most;
  }
  Shape shape = x.shape;
  shape.push_back(longest);
  op.set_out("Y", mask_dtype(op), shape);
}

template <class T>
KernelFn mask(int64_t longest) {
  return [=](const KernelArgs& k) {
    const Tensor& lengths = k.in(0);
    T* out = k.out<T>(0);
    for (int64_t i = 0; i < lengths.numel(); ++i) {
      const int64_t length = length_entry(lengths, i);
      for (int64_t j = 0; j < longest; ++j) *out++ = static_cast<T>(j < length ? 1 : 0);
    }
  };
}

BoundKernel mask_kernel(const KernelSite& site) {
  const int64_t longest = site.out("Y").shape.back().value();
  switch (site.out("Y").dtype) {
    case DType::boolean:
      return BoundKernel(mask<bool>(longest));
    case DType::int8:
      return BoundKernel(mask<int8_t>(longest));
    case DType::uint8:
      return BoundKernel(mask<uint8_t>(longest));
    case DType::int32:
      return BoundKernel(mask<int32_t>(longest));
    case DType::int64:
      return BoundKernel(mask<int64_t>(longest));
    case DType::float32:
      return BoundKernel(mask<float>(longest));
    case DType::float64:
      return BoundKernel(mask<double>(longest));
    default:
      throw Error(ErrorKind::unimplemented,
                  cat("a mask of ", name_of(site.out("Y").dtype), " is not made"))
          .fix("make it float32 and cast");
  }
}

}  // namespace

void register_sequence_pad(Registry& ops) {
  ops.op("sequence_pad")
      .doc("Sequences side by side in one tensor, filled up with PadValue")
      .in("X", "rows in sequences")
      .in("PadValue", "one number, or one row")
      .out("Out", "[sequences, longest, ...]")
      .out("Length", "int64, [sequences]: the lengths before padding")
      .attr("padded_length", -1, "how long every sequence becomes; -1: the longest of X")
      .shape(sequence_pad_shape)
      .kernel(untyped(pad))
      .grad({"X"})
      .grad_outs({"Out"})
      .no_grad({"PadValue"})
      .grad_kernel(untyped(pad_grad))
      .sample([](Draw& draw) {
        OpSample sample;
        const bool one_number = draw.coin();
        sample.inputs["X"] = {draw_sequences(draw, {3})};
        sample.inputs["PadValue"] = {draw.uniform(one_number ? Shape{1} : Shape{3})};
        sample.attrs["padded_length"] = draw.coin() ? -1 : 4;
        return sample;
      });

  ops.op("sequence_unpad")
      .doc("The first Length[i] rows of every X[i], as sequences")
      .in("X", "[sequences, longest, ...]")
      .in("Length", "int64, [sequences]")
      .out("Out", "[sum of Length, ...] in sequences; [sum of Length, 1] when X has two dimensions")
      .shape(unpad_shape)
      .kernel(untyped(unpad))
      .grad({"X"})
      .no_grad({"Length"})
      .grad_kernel(untyped(unpad_grad))
      .traits({.can_fail = true, .reads_values = {"Length"}})
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {draw.uniform(draw.coin() ? Shape{3, 4} : Shape{3, 4, 2})};
        sample.inputs["Length"] = {draw.ints({3}, 0, 4)};
        return sample;
      });

  ops.op("sequence_mask")
      .doc("Y[..., j] is 1 where j is below X[...], else 0")
      .in("X", "lengths, whole numbers of any shape")
      .in_optional("MaxLenTensor", "one whole number, taken instead of maxlen")
      .out("Y", "the shape of X, then the longest length")
      .attr("maxlen", -1, "the last extent of Y; below 0: the largest of X")
      .required_attr<int>("out_dtype", "element type of Y, by its number")
      .shape(mask_shape)
      .kernel(untyped(mask_kernel))
      .no_grad({"X", "MaxLenTensor"})
      .traits({.reads_values = {"X", "MaxLenTensor"}})
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {draw.ints(draw.shape(1, 2), 0, 4)};
        sample.attrs["maxlen"] = draw.coin() ? -1 : 5;
        sample.attrs["out_dtype"] = static_cast<int>(DType::float64);
        return sample;
      });
}

}  // namespace trireme
