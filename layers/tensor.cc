// Ops that make, copy and reshape tensors.
#include "layers/tensor.h"

#include <algorithm>

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

// A list with variables in it: the numbers go to the attribute (-1 for a variable), and one
// one-element variable per entry to the list slot.
std::vector<Var*> as_variables(const Extents& extents) {
  std::vector<Var*> list;
  for (const Extent& item : extents.items()) {
    list.push_back(item.var ? item.var
                            : &fill_constant({1}, DType::int32, item.value, {.force_cpu = true}));
  }
  return list;
}

void check_reshape(const LayerHelper& helper, const Var& x, const Extents& shape) {
  int inferred = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Extent& item = shape.items()[i];
    if (item.var) continue;
    if (item.value == -1) ++inferred;
    if (item.value < -1) throw helper.error(cat("dimension ", i, " of shape is ", item.value));
    if (item.value == 0 && static_cast<int>(i) >= x.shape().rank()) {
      throw helper.error(cat("dimension ", i, " of shape is 0, which copies the input's, but ",
                             x.name(), " has ", x.shape().rank(), " dimensions"));
    }
  }
  if (inferred > 1) {
    throw helper.error(cat("shape has ", inferred, " entries of -1")).fix("leave at most one open");
  }
}

}  // namespace

Var& assign(Var& input, Var* output, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("assign");
  Var& out = output ? *output : helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("assign", {{"X", input}}, {{"Out", out}});
  return out;
}

Var& cast(Var& x, DType dtype, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("cast");
  Var& out = helper.create_variable_for_type_inference(dtype);
  helper.append_op("cast", {{"X", x}}, {{"Out", out}},
                   {{"in_dtype", wire_number(x.dtype())}, {"out_dtype", wire_number(dtype)}});
  return out;
}

Var& concat(const Vars& input, const Extent& axis, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("concat", name);
  if (input.empty()) throw helper.error("concat has no input");
  const bool array = input[0].type() == VarType::lod_tensor_array;
  if (array) {
    if (input.size() != 1 || axis.var) {
      throw helper.error("a tensor array is joined alone and along an axis that is a number");
    }
    Var& out = helper.create_variable_for_type_inference(input[0].dtype());
    Var& out_index = helper.create_variable_for_type_inference(DType::int32);
    helper.append_op("tensor_array_to_tensor", {{"X", input}},
                     {{"Out", out}, {"OutIndex", out_index}},
                     {{"axis", axis.value}, {"use_stack", false}});
    return out;
  }
  VarSlots inputs = {{"X", input}};
  Attrs attrs;
  if (axis.var) {
    inputs.push_back({"AxisTensor", *axis.var});
  } else {
    attrs["axis"] = axis.value;
  }
  Var& out = helper.create_variable_for_type_inference(input[0].dtype());
  helper.append_op("concat", inputs, {{"Out", out}}, std::move(attrs));
  return out;
}

Var& sums(const Vars& input, Var* out, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("sum");
  if (input.empty()) throw helper.error("sums has no input");
  if (!out) out = &helper.create_variable_for_type_inference(input[0].dtype());
  helper.append_op("sum", {{"X", input}}, {{"Out", *out}});
  return *out;
}

namespace {

std::vector<Var*> split_into(LayerHelper& helper, Var& input, size_t parts, VarSlots inputs,
                             Attrs attrs, const Extent& dim) {
  const int rank = input.shape().rank();
  if (dim.var) {
    inputs.push_back({"AxisTensor", *dim.var});
  } else {
    if (dim.value < -rank || dim.value >= rank) {
      throw helper
          .error(cat("dim is ", dim.value, " but ", input.name(), " has ", rank, " dimensions"))
          .fix(cat("choose from ", -rank, " to ", rank - 1));
    }
    attrs["axis"] = dim.value < 0 ? dim.value + rank : dim.value;
  }
  std::vector<Var*> outs;
  for (size_t i = 0; i < parts; ++i) {
    outs.push_back(&helper.create_variable_for_type_inference(input.dtype()));
  }
  helper.append_op("split", inputs, {{"Out", outs}}, std::move(attrs));
  return outs;
}

}  // namespace

std::vector<Var*> split(Var& input, int parts, const Extent& dim, const std::string& name,
                        SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("split", name);
  if (parts < 1) throw helper.error(cat("num_or_sections is ", parts, "; it must be at least 1"));
  return split_into(helper, input, static_cast<size_t>(parts), {{"X", input}}, {{"num", parts}},
                    dim);
}

std::vector<Var*> split(Var& input, const Extents& sections, const Extent& dim,
                        const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("split", name);
  if (sections.size() == 0) throw helper.error("num_or_sections is an empty list");
  VarSlots inputs = {{"X", input}};
  if (!sections.all_known()) inputs.push_back({"SectionsTensorList", as_variables(sections)});
  return split_into(helper, input, sections.size(), std::move(inputs),
                    {{"sections", sections.ints()}, {"num", 0}}, dim);
}

Var& stack(const Vars& x, int axis, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("stack");
  if (x.empty()) throw helper.error("stack has no input");
  Var& out = helper.create_variable_for_type_inference(x[0].dtype());
  helper.append_op("stack", {{"X", x}}, {{"Y", out}}, {{"axis", axis}});
  return out;
}

Var& reshape(Var& x, const Extents& shape, const ReshapeOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("reshape2", options.name);
  if (shape.empty() && !options.actual_shape) throw helper.error("shape is empty");
  check_reshape(helper, x, shape);
  VarSlots inputs = {{"X", x}};
  Attrs attrs;
  if (!shape.tensor()) attrs["shape"] = shape.ints();
  if (options.actual_shape) {
    inputs.push_back({"Shape", *options.actual_shape});
  } else if (shape.tensor()) {
    inputs.push_back({"Shape", *shape.tensor()});
  } else if (!shape.all_known()) {
    inputs.push_back({"ShapeTensor", as_variables(shape)});
  }
  Var& out = options.inplace ? x : helper.create_variable_for_type_inference(x.dtype());
  Var& x_shape = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("reshape2", inputs, {{"Out", out}, {"XShape", x_shape}}, std::move(attrs));
  return helper.append_activation(out, options.act);
}

Var& transpose(Var& x, const std::vector<int>& perm, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("transpose", name);
  if (static_cast<int>(perm.size()) != x.shape().rank()) {
    throw helper
        .error(cat("perm is [", join(perm), "] but ", x.name(), " has ", x.shape().rank(),
                   " dimensions"))
        .fix("name every dimension once");
  }
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  Var& x_shape = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("transpose2", {{"X", x}}, {{"Out", out}, {"XShape", x_shape}}, {{"axis", perm}});
  return out;
}

Var& squeeze(Var& input, const std::vector<int>& axes, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("squeeze", name);
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  Var& x_shape = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("squeeze2", {{"X", input}}, {{"Out", out}, {"XShape", x_shape}},
                   {{"axes", axes}});
  return out;
}

Var& unsqueeze(Var& input, const Extents& axes, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("unsqueeze", name);
  VarSlots inputs = {{"X", input}};
  Attrs attrs;
  if (axes.tensor()) {
    inputs.push_back({"AxesTensor", *axes.tensor()});
  } else if (!axes.all_known()) {
    inputs.push_back({"AxesTensorList", as_variables(axes)});
  } else {
    attrs["axes"] = axes.ints();
  }
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  Var& x_shape = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("unsqueeze2", inputs, {{"Out", out}, {"XShape", x_shape}}, std::move(attrs));
  return out;
}

Var& flatten(Var& x, int axis, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("flatten", name);
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  Var& x_shape = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("flatten2", {{"X", x}}, {{"Out", out}, {"XShape", x_shape}}, {{"axis", axis}});
  return out;
}

Var& expand(Var& x, const Extents& expand_times, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("expand", name);
  VarSlots inputs = {{"X", x}};
  Attrs attrs;
  if (expand_times.tensor()) {
    inputs.push_back({"ExpandTimes", *expand_times.tensor()});
  } else {
    attrs["expand_times"] = expand_times.ints();
    if (!expand_times.all_known()) {
      inputs.push_back({"expand_times_tensor", as_variables(expand_times)});
    }
  }
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("expand", inputs, {{"Out", out}}, std::move(attrs));
  return out;
}

Var& slice(Var& input, const std::vector<int>& axes, const Extents& starts, const Extents& ends,
           SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("slice");
  for (const Extents* bound : {&starts, &ends}) {
    if (!bound->tensor() && bound->size() != axes.size()) {
      throw helper
          .error(cat("axes has ", axes.size(), " entries, starts ", starts.size(), " and ends ",
                     ends.size()))
          .fix("give one start and one end per axis");
    }
  }
  VarSlots inputs = {{"Input", input}};
  std::vector<int> infer_flags(axes.size(), 1);
  Attrs attrs = {{"axes", axes}};
  const auto add = [&](const Extents& bound, const char* attr, const char* tensor,
                       const char* list) {
    if (bound.tensor()) {
      inputs.push_back({tensor, *bound.tensor()});
      std::fill(infer_flags.begin(), infer_flags.end(), -1);
      return;
    }
    attrs[attr] = bound.ints();
    if (bound.all_known()) return;
    inputs.push_back({list, as_variables(bound)});
    for (size_t i = 0; i < bound.size(); ++i) {
      if (bound.items()[i].var) infer_flags[i] = -1;
    }
  };
  add(starts, "starts", "StartsTensor", "StartsTensorList");
  add(ends, "ends", "EndsTensor", "EndsTensorList");
  attrs["infer_flags"] = infer_flags;
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("slice", inputs, {{"Out", out}}, std::move(attrs));
  return out;
}

Var& shape(Var& input, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("shape");
  Var& out = helper.create_variable_for_type_inference(DType::int32);
  helper.append_op("shape", {{"Input", input}}, {{"Out", out}});
  return out;
}

Var& gather(Var& input, Var& index, bool overwrite, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("gather");
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("gather", {{"X", input}, {"Index", index}}, {{"Out", out}},
                   {{"overwrite", overwrite}});
  return out;
}

Var& scale(Var& x, const ScaleOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("scale", options.name);
  VarSlots inputs = {{"X", x}};
  Attrs attrs = {{"bias", static_cast<float>(options.bias)},
                 {"bias_after_scale", options.bias_after_scale}};
  if (options.scale_tensor) {
    inputs.push_back({"ScaleTensor", *options.scale_tensor});
  } else {
    attrs["scale"] = static_cast<float>(options.scale);
  }
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("scale", inputs, {{"Out", out}}, std::move(attrs));
  return helper.append_activation(out, options.act);
}

Var& increment(Var& x, double value, bool in_place, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("increment");
  Var& out = in_place ? x : helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("increment", {{"X", x}}, {{"Out", out}}, {{"step", static_cast<float>(value)}});
  return out;
}

}  // namespace trireme::layers
