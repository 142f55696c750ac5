// Slices of tensors: slice, strided_slice, crop and pad. All are one copy between strided views.
#include <algorithm>
#include <limits>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/tensor/sites.h"

namespace trireme {
namespace {

// Numbers of one kind (starts, ends, strides): from the attribute, from one tensor or from one
// tensor each. `known` is false while a tensor's value is not there yet.
struct Numbers {
  std::vector<int64_t> values;
  std::vector<bool> known;
};

Numbers numbers_of(const OpView& op, const std::string& attr, const std::string& slot,
                   size_t count) {
  Numbers result;
  if (op.has(slot + "List")) {
    for (size_t i = 0; i < op.count(slot + "List"); ++i) {
      const std::vector<int64_t> read = read_ints(op, slot + "List", i);
      result.values.push_back(read.empty() ? 0 : read[0]);
      result.known.push_back(!read.empty());
    }
  } else if (op.has(slot)) {
    result.values = read_ints(op, slot);
    const bool read = op.in(slot).value != nullptr;
    if (!read) result.values.assign(count, 0);
    result.known.assign(result.values.size(), read);
  } else {
    const auto given = op.attr<std::vector<int32_t>>(attr);
    result.values.assign(given.begin(), given.end());
    result.known.assign(given.size(), true);
  }
  if (result.values.size() != count) {
    throw op.error(cat(attr, " has ", result.values.size(), " numbers but axes has ", count))
        .fix(cat("give one of ", attr, " for every axis"));
  }
  return result;
}

// First index, and how many, when [start, end) is walked by `stride` in `extent` elements. Negative
// positions count from the end; positions outside are moved to the nearest one inside.
std::pair<int64_t, int64_t> covered(int64_t start, int64_t end, int64_t stride, int64_t extent) {
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? extent : extent - 1;
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  start = std::clamp(start, low, high);
  end = std::clamp(end, low, high);
  const int64_t distance = stride > 0 ? end - start : start - end;
  const int64_t size = stride > 0 ? stride : -stride;
  return {start, distance <= 0 ? 0 : (distance + size - 1) / size};
}

}  // namespace

Part sliced(const OpView& op, bool strided) {
  const Shape& in = op.in("Input").shape;
  const auto axes = op.attr<std::vector<int32_t>>("axes");
  const Numbers starts = numbers_of(op, "starts", "StartsTensor", axes.size());
  const Numbers ends = numbers_of(op, "ends", "EndsTensor", axes.size());
  Numbers strides{std::vector<int64_t>(axes.size(), 1), std::vector<bool>(axes.size(), true)};
  if (strided) strides = numbers_of(op, "strides", "StridesTensor", axes.size());
  Part part{in, in.known() ? strides_of(in) : Strides{}, 0};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = normal_axis(op, axes[i], in.rank(), "axes");
    if (strides.known[i] && strides.values[i] == 0) {
      throw op.error(cat("strides[", i, "] is 0")).fix("use a stride other than 0");
    }
    if (!starts.known[i] || !ends.known[i] || !strides.known[i] || !in[axis].known()) {
      part.shape[axis] = Dim();
      continue;
    }
    const auto [first, count] =
        covered(starts.values[i], ends.values[i], strides.values[i], in.at(axis));
    part.shape[axis] = count;
    if (in.known() && count > 0) part.start += first * part.steps[static_cast<size_t>(axis)];
    part.steps[static_cast<size_t>(axis)] *= strides.values[i];
  }
  return part;
}

namespace {

void slice_shape(OpView& op, bool strided) {
  require_dense(op, "Input");
  Shape out = sliced(op, strided).shape;
  const auto decrease = op.attr<std::vector<int32_t>>("decrease_axis");
  const std::vector<int> dropped = decrease.empty()
                                       ? std::vector<int>{}
                                       : normal_axes(op, decrease, out.rank(), "decrease_axis");
  for (size_t i = dropped.size(); i > 0; --i) {
    if (!out[dropped[i - 1]].may_equal(1)) {
      throw op
          .error(cat("axis ", dropped[i - 1], " is to be dropped but the slice has ",
                     out[dropped[i - 1]], " elements there; Input has shape ",
                     op.in("Input").shape))
          .fix("index inside the tensor");
    }
    out.erase(dropped[i - 1]);
  }
  if (out.rank() == 0) out = {1};
  op.set_out("Out", op.in("Input").dtype, out);
  const auto axes = op.attr<std::vector<int32_t>>("axes");
  if (std::find(axes.begin(), axes.end(), 0) == axes.end()) carry_lod(op, "Out", {"Input"});
}

BoundKernel take_kernel(const Part& part, DType dtype, int from) {
  const Walk<1> walk(part.shape, {part.steps});
  return by_size(dtype, [&]<class T>() {
    return BoundKernel(
        [walk, from, start = part.start](const KernelArgs& k) {
          const T* in = raw_as<T>(k.in(from)) + start;
          T* out = raw_as<T>(k.out(0));
          walk.runs(k.range(walk.count()), [&](int64_t at, const auto& offset, int64_t n) {
            for (int64_t i = 0; i < n; ++i) out[at + i] = in[offset[0] + i * walk.step(0)];
          });
        },
        parts_for(walk.count()));
  });
}

// Puts a tensor into its part of a whole that is `value` elsewhere.
BoundKernel put_kernel(const Part& part, DType dtype, int from, double value) {
  const Walk<1> walk(part.shape, {part.steps});
  return by_size(dtype, [&]<class T>() {
    return BoundKernel([walk, from, value, start = part.start](const KernelArgs& k) {
      fill(k.out(0), value, 0, k.out(0).numel());
      const T* in = raw_as<T>(k.in(from));
      T* out = raw_as<T>(k.out(0)) + start;
      walk.runs({0, walk.count()}, [&](int64_t at, const auto& offset, int64_t n) {
        for (int64_t i = 0; i < n; ++i) out[offset[0] + i * walk.step(0)] = in[at + i];
      });
    });
  });
}

void slice_op(Registry& ops, bool strided) {
  std::vector<std::string> tensors = {"StartsTensor", "EndsTensor", "StartsTensorList",
                                      "EndsTensorList"};
  OpSchema& row =
      ops.op(strided ? "strided_slice" : "slice")
          .in("Input", "any shape and type")
          .in_optional("StartsTensor", "used instead of starts")
          .in_optional("EndsTensor", "used instead of ends")
          .in_optional_list("StartsTensorList", "one each; used instead of starts")
          .in_optional_list("EndsTensorList", "one each; used instead of ends")
          .out("Out", "the elements between starts and ends")
          .required_attr<std::vector<int32_t>>("axes", "the dimensions that are cut")
          .attr("starts", std::vector<int32_t>{}, "first position on each axis")
          .attr("ends", std::vector<int32_t>{}, "position after the last")
          .attr("infer_flags", std::vector<int32_t>{}, "kept for the record")
          .attr("decrease_axis", std::vector<int32_t>{}, "dimensions of one element to drop");
  if (strided) {
    row.in_optional("StridesTensor", "used instead of strides")
        .in_optional_list("StridesTensorList", "one each; used instead of strides")
        .attr("strides", std::vector<int32_t>{}, "distance of positions, negative: backwards");
    tensors.insert(tensors.end(), {"StridesTensor", "StridesTensorList"});
  }
  std::vector<std::string> used = {"Input"};
  used.insert(used.end(), tensors.begin(), tensors.end());
  row.shape([strided](OpView& op) { slice_shape(op, strided); })
      .kernel(untyped([strided](const KernelSite& site) {
        return take_kernel(sliced(site, strided), site.in("Input").dtype, site.position("Input"));
      }))
      .grad(used)
      .no_grad(tensors)
      .grad_kernel(untyped([strided](const KernelSite& site) {
        return put_kernel(sliced(site, strided), site.in("Input").dtype, site.position("Out@GRAD"),
                          0);
      }))
      .grad_vjp(linear_gradient({"Input"}))
      .traits({.reads_values = tensors});
  row.sample([strided](Draw& d) {
    OpSample sample{.inputs = {{"Input", {d.uniform({d.size(2, 4), d.size(1, 3), d.size(3, 5)})}}},
                    .attrs = {{"axes", std::vector<int32_t>{0, 2}},
                              {"starts", std::vector<int32_t>{1, -3}},
                              {"ends", std::vector<int32_t>{100, -1}}}};
    if (strided) {
      sample.attrs["strides"] = std::vector<int32_t>{1, 2};
      if (d.coin()) {
        sample.attrs["starts"] = std::vector<int32_t>{100, -1};
        sample.attrs["ends"] = std::vector<int32_t>{0, -100};
        sample.attrs["strides"] = std::vector<int32_t>{-1, -2};
      }
    }
    return sample;
  });
  row.sample([strided](Draw& d) {
    OpSample sample{.inputs = {{"Input", {d.uniform({d.size(2, 4), d.size(1, 3)})}}},
                    .attrs = {{"axes", std::vector<int32_t>{0}},
                              {"starts", std::vector<int32_t>{1}},
                              {"ends", std::vector<int32_t>{2}},
                              {"decrease_axis", std::vector<int32_t>{0}}}};
    if (strided) sample.attrs["strides"] = std::vector<int32_t>{1};
    return sample;
  });
}

// ---- crop and pad: a part at given offsets

Part part_at(const Shape& whole, const Shape& shape, const std::vector<int64_t>& offsets) {
  Part part{shape, strides_of(whole), 0};
  for (int d = 0; d < whole.rank(); ++d) {
    part.start += offsets[static_cast<size_t>(d)] * part.steps[static_cast<size_t>(d)];
  }
  return part;
}

// Numbers of a list of tensors of one number each; empty while any of them is not computed.
std::vector<int64_t> listed_ints(const OpView& op, const char* slot) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < op.count(slot); ++i) {
    const std::vector<int64_t> one = read_ints(op, slot, i);
    if (one.empty()) return {};
    all.push_back(one[0]);
  }
  return all;
}

bool crops_by_tensors(const OpView& op) { return op.schema().find_input("ShapeTensor") != nullptr; }

// Whether the offsets are still to be computed.
bool crop_offsets_open(const OpView& op) {
  if (crops_by_tensors(op) && op.has("OffsetsTensor"))
    return listed_ints(op, "OffsetsTensor").empty();
  return op.has("Offsets") && !op.in("Offsets").value;
}

std::vector<int64_t> crop_offsets(const OpView& op) {
  if (crops_by_tensors(op) && op.has("OffsetsTensor")) return listed_ints(op, "OffsetsTensor");
  if (op.has("Offsets")) return read_ints(op, "Offsets");
  const auto attr = op.attr<std::vector<int32_t>>("offsets");
  if (attr.empty()) return std::vector<int64_t>(static_cast<size_t>(op.in("X").shape.rank()), 0);
  return {attr.begin(), attr.end()};
}

// The wanted extents; unknown ones are -1, or still to be computed.
Shape crop_extents(const OpView& op) {
  if (!crops_by_tensors(op) && op.has("Y")) return op.in("Y").shape;
  const auto attr = op.attr<std::vector<int32_t>>("shape");
  std::vector<int64_t> wide(attr.begin(), attr.end());
  if (crops_by_tensors(op) && (op.has("ShapeTensor") || op.has("Shape"))) {
    wide = op.has("ShapeTensor") ? listed_ints(op, "ShapeTensor") : read_ints(op, "Shape");
    if (wide.empty()) wide.assign(static_cast<size_t>(op.in("X").shape.rank()), -1);
  }
  return Shape(std::span<const int64_t>(wide));
}

// Whether an unknown extent of the result is what is left of X, not one that is still to come.
bool crop_takes_rest(const OpView& op) {
  if (!crops_by_tensors(op)) return !op.has("Y");
  if (op.has("ShapeTensor")) return !listed_ints(op, "ShapeTensor").empty();
  return !op.has("Shape") || op.in("Shape").value;
}

void crop_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  Shape out = crop_extents(op);
  if (out.rank() != x.shape.rank()) {
    throw op
        .error(cat("the wanted shape ", out, " has ", out.rank(), " dimensions but X has ",
                   x.shape.rank()))
        .fix("give one extent for every dimension of X");
  }
  const std::vector<int64_t> offsets = crop_offsets(op);
  const bool known = !crop_offsets_open(op), rest = crop_takes_rest(op);
  if (known && static_cast<int>(offsets.size()) != x.shape.rank()) {
    throw op
        .error(cat("offsets has ", offsets.size(), " numbers but X has ", x.shape.rank(),
                   " dimensions"))
        .fix("give one offset for every dimension");
  }
  for (int d = 0; known && d < out.rank(); ++d) {
    // A wanted extent of -1 takes all that is left.
    const Dim left = x.shape[d] - Dim(offsets[static_cast<size_t>(d)]);
    if (!out[d].known() && rest) out[d] = left;
    if (offsets[static_cast<size_t>(d)] < 0 ||
        (x.shape[d].known() && out[d].known() &&
         offsets[static_cast<size_t>(d)] + out[d].value() > x.shape.at(d))) {
      throw op
          .error(cat("dimension ", d, ": ", out[d], " elements from ",
                     offsets[static_cast<size_t>(d)], " on do not lie inside ", x.shape[d]))
          .fix("choose a smaller shape or other offsets");
    }
  }
  op.set_out("Out", x.dtype, out);
}

std::vector<int64_t> paddings_before(const OpView& op) {
  const auto paddings = op.attr<std::vector<int32_t>>("paddings");
  std::vector<int64_t> before;
  for (size_t i = 0; i < paddings.size(); i += 2) before.push_back(paddings[i]);
  return before;
}

void pad_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const auto paddings = op.attr<std::vector<int32_t>>("paddings");
  if (static_cast<int>(paddings.size()) != 2 * x.shape.rank()) {
    throw op
        .error(cat("paddings has ", paddings.size(), " numbers but X has ", x.shape.rank(),
                   " dimensions"))
        .fix("give two numbers, before and after, for every dimension");
  }
  Shape out = x.shape;
  for (int d = 0; d < out.rank(); ++d) {
    const auto i = static_cast<size_t>(2 * d);
    if (paddings[i] < 0 || paddings[i + 1] < 0) {
      throw op.error(cat("paddings [", join(paddings), "] has a negative number"))
          .fix("use crop to make a tensor smaller");
    }
    out[d] = out[d] + Dim(paddings[i] + paddings[i + 1]);
  }
  op.set_out("Out", x.dtype, out);
  if (paddings[0] == 0 && paddings[1] == 0) carry_lod(op, "Out", {"X"});
}

void register_crop(OpSchema& row, const std::vector<std::string>& not_learned,
                   const std::vector<std::string>& values) {
  std::vector<std::string> uses = values;
  uses.insert(uses.begin(), "X");
  row.out("Out", "a part of X")
      .attr("offsets", std::vector<int32_t>{}, "where the part begins; empty: at 0")
      .attr("shape", std::vector<int32_t>{}, "extents of the part; -1: all that is left")
      .shape(crop_shape)
      .kernel(untyped([](const KernelSite& site) {
        return take_kernel(part_at(site.in("X").shape, site.out("Out").shape, crop_offsets(site)),
                           site.in("X").dtype, site.position("X"));
      }))
      .grad(uses)
      .no_grad(not_learned)
      .grad_kernel(untyped([](const KernelSite& site) {
        return put_kernel(
            part_at(site.in("X").shape, site.in("Out@GRAD").shape, crop_offsets(site)),
            site.in("X").dtype, site.position("Out@GRAD"), 0);
      }))
      .grad_vjp([values](Vjp& v) {
        // The same part of what arrives. Its extents may be Y's, which the gradient does not read:
        // those of Out@GRAD are the same.
        Exprs operands{{"X", {v.grad("X@GRAD")}}};
        const OpSchema& crop = *v.op().schema().forward();
        if (crop.find_input("Y")) operands["Y"] = {v.in("Out@GRAD")};
        for (const std::string& slot : values) {
          for (size_t i = 0; i < v.op().count(slot); ++i) operands[slot].push_back(v.in(slot, i));
        }
        v.set("Out@GRAD", 0,
              emit_op(v.emitter(), crop.type(), operands, v.op().attrs(), {{"Out", 1}})["Out"][0]);
      })
      .traits({.reads_values = values})
      .sample([](Draw& d) {
        const int64_t rows = d.size(2, 4);
        return OpSample{.inputs = {{"X", {d.uniform({rows, 4})}}},
                        .attrs = {{"offsets", std::vector<int32_t>{1, 2}},
                                  {"shape", std::vector<int32_t>{-1, 2}}}};
      });
}

void register_crop_and_pad(Registry& ops) {
  register_crop(ops.op("crop")
                    .in("X", "any shape and type")
                    .in_optional("Y", "its shape is taken; used instead of shape")
                    .in_optional("Offsets", "used instead of offsets"),
                {"Y", "Offsets"}, {"Offsets"});
  const std::vector<std::string> tensors = {"Shape", "Offsets", "ShapeTensor", "OffsetsTensor"};
  register_crop(ops.op("crop_tensor")
                    .in("X", "any shape and type")
                    .in_optional("Shape", "used instead of shape")
                    .in_optional("Offsets", "used instead of offsets")
                    .in_optional_list("ShapeTensor", "an extent each; used first")
                    .in_optional_list("OffsetsTensor", "an offset each; used first"),
                tensors, tensors);
  ops.op("pad")
      .in("X", "any shape")
      .out("Out", "X with a margin")
      .required_attr<std::vector<int32_t>>("paddings", "before and after, for every dimension")
      .attr("pad_value", 0.0f, "what the margin holds")
      .shape(pad_shape)
      .kernel(untyped([](const KernelSite& site) {
        const ValueInfo& x = site.in("X");
        return put_kernel(part_at(site.out("Out").shape, x.shape, paddings_before(site)), x.dtype,
                          site.position("X"), site.attr<float>("pad_value"));
      }))
      .grad({})
      .grad_shape([](OpView& op) {
        Shape x = op.in("Out@GRAD").shape;
        const auto paddings = op.attr<std::vector<int32_t>>("paddings");
        for (int d = 0; d < x.rank(); ++d) {
          const auto i = static_cast<size_t>(2 * d);
          x[d] = x[d] - Dim(paddings[i] + paddings[i + 1]);
        }
        op.set_out("X@GRAD", op.in("Out@GRAD").dtype, x);
      })
      .grad_kernel(untyped([](const KernelSite& site) {
        const ValueInfo& grad = site.in("Out@GRAD");
        return take_kernel(part_at(grad.shape, site.out("X@GRAD").shape, paddings_before(site)),
                           grad.dtype, site.position("Out@GRAD"));
      }))
      .grad_vjp(linear_gradient({"X"}, {{"pad_value", 0.0f}}))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.uniform(d.shape(2, 2))}}},
            .attrs = {{"paddings", std::vector<int32_t>{1, 0, 2, 1}}, {"pad_value", 0.5f}}};
      });
}

}  // namespace

void register_tensor_slice(Registry& ops) {
  slice_op(ops, false);
  slice_op(ops, true);
  register_crop_and_pad(ops);
}

}  // namespace trireme
