// Variables made from nothing: parameters, globals, constants and random numbers.
#include "core/text.h"
#include "ir/python_text.h"
#include "layers/layer_helper.h"
#include "layers/tensor.h"

namespace trireme::layers {
namespace {

// Puts a shape into an op: known numbers as an attribute, variables into their slots.
void put_shape(const Extents& shape, VarSlots& inputs, Attrs& attrs) {
  if (shape.tensor()) {
    inputs.push_back({"ShapeTensor", *shape.tensor()});
    return;
  }
  attrs["shape"] = shape.longs();
  if (shape.all_known()) return;
  std::vector<Var*> list;
  for (const Extent& item : shape.items()) {
    list.push_back(item.var ? item.var
                            : &fill_constant({1}, DType::int32, item.value, {.force_cpu = true}));
  }
  inputs.push_back({"ShapeTensorList", list});
}

void check_positive(const LayerHelper& helper, const Extents& shape) {
  for (const Extent& item : shape.items()) {
    if (item.var || item.value >= 0) continue;
    throw helper.error(cat("shape is [", join(shape.longs()), "]; every number must be known"))
        .fix("use a variable for a size known at run time, or fill_constant_batch_size_like");
  }
}

// A float attribute rounds; the text beside it holds the number as it was given.
std::string exact_text(DType dtype, Scalar value) {
  if (is_integer(dtype)) return python_text(static_cast<int64_t>(value.value));
  return python_text(value.value);
}

Var& fill(const Extents& shape, DType dtype, VarSlots inputs, Attrs attrs,
          const FillOptions& options) {
  LayerHelper helper("fill_constant", options.name);
  check_positive(helper, shape);
  attrs["force_cpu"] = options.force_cpu;
  attrs["dtype"] = wire_number(dtype);
  put_shape(shape, inputs, attrs);
  if (options.out && options.out->has_shape() && options.out->dtype() != dtype) {
    throw helper.error(ErrorKind::type_mismatch,
                       cat("dtype is ", name_of(dtype), " but out (", options.out->name(), ") is ",
                           name_of(options.out->dtype())));
  }
  Var& out = options.out ? *options.out : helper.create_variable_for_type_inference(dtype);
  helper.append_op("fill_constant", inputs, {{"Out", out}}, std::move(attrs));
  out.set_stop_gradient(true);
  return out;
}

Var& random(const char* op, const Extents& shape, DType dtype, const std::string& name, int seed,
            Attrs attrs) {
  LayerHelper helper(op, name);
  check_positive(helper, shape);
  VarSlots inputs;
  put_shape(shape, inputs, attrs);
  attrs["dtype"] = wire_number(dtype);
  attrs["seed"] = seed;
  Var& out = helper.create_variable_for_type_inference(dtype);
  helper.append_op(op, inputs, {{"Out", out}}, std::move(attrs));
  return out;
}

template <class T, class Stored = T>
std::vector<Stored> values_of(const Tensor& tensor) {
  const T* data = tensor.data<T>();
  return std::vector<Stored>(data, data + tensor.numel());
}

}  // namespace

Var& create_tensor(DType dtype, const std::string& name, bool persistable, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("create_tensor", name);
  return helper.create_variable(
      {.name = helper.name(), .dtype = dtype, .persistable = persistable, .has_shape = false});
}

Var& create_parameter(const std::vector<int64_t>& shape, DType dtype,
                      const CreateParameterOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("create_parameter");
  ParamAttr attr = options.attr.attr();
  if (attr.name.empty()) attr.name = options.name;
  Var* parameter = helper.create_parameter({.attr = attr,
                                            .shape = shape,
                                            .dtype = dtype,
                                            .is_bias = options.is_bias,
                                            .default_initializer = options.default_initializer});
  return *parameter;
}

Var& create_global_var(const std::vector<int64_t>& shape, double value, DType dtype,
                       const GlobalVarOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("global_var", options.name);
  Var& var = helper.create_global_variable({.name = options.name,
                                            .dtype = dtype,
                                            .shape = shape,
                                            .persistable = options.persistable,
                                            .stop_gradient = true});
  initializer::Constant start(value, options.force_cpu);
  helper.set_variable_initializer(var, start);
  return var;
}

Var& fill_constant(const Extents& shape, DType dtype, Scalar value, const FillOptions& options,
                   SourceLine line) {
  const LineScope scope(line);
  return fill(shape, dtype, {},
              {{"value", static_cast<float>(value.value)}, {"str_value", exact_text(dtype, value)}},
              options);
}

Var& fill_constant(const Extents& shape, DType dtype, Var& value, const FillOptions& options,
                   SourceLine line) {
  const LineScope scope(line);
  return fill(shape, dtype, {{"ValueTensor", value}}, {}, options);
}

Var& zeros(const Extents& shape, DType dtype, bool force_cpu, SourceLine line) {
  return fill_constant(shape, dtype, 0.0, {.force_cpu = force_cpu}, line);
}

Var& ones(const Extents& shape, DType dtype, bool force_cpu, SourceLine line) {
  return fill_constant(shape, dtype, 1.0, {.force_cpu = force_cpu}, line);
}

Var& zeros_like(Var& x, Var* out, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("zeros_like");
  if (!out) out = &helper.create_variable_for_type_inference(x.dtype());
  if (defaults().style == Style::static_2_4) {
    helper.append_op("fill_any_like", {{"X", x}}, {{"Out", *out}},
                     {{"value", 0.0f}, {"dtype", wire_number(x.dtype())}});
  } else {
    helper.append_op("fill_zeros_like", {{"X", x}}, {{"Out", *out}});
  }
  out->set_stop_gradient(true);
  return *out;
}

Var& ones_like(Var& x, Var* out, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("ones_like");
  if (!out) out = &helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("fill_any_like", {{"X", x}}, {{"Out", *out}},
                   {{"value", 1.0f}, {"dtype", wire_number(x.dtype())}});
  out->set_stop_gradient(true);
  return *out;
}

Var& fill_constant_batch_size_like(Var& input, const std::vector<int64_t>& shape, DType dtype,
                                   Scalar value, const FillLikeOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("fill_constant_batch_size_like");
  Var& out = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  helper.append_op("fill_constant_batch_size_like", {{"Input", input}}, {{"Out", out}},
                   {{"shape", shape},
                    {"dtype", wire_number(dtype)},
                    {"value", static_cast<float>(value.value)},
                    {"str_value", exact_text(dtype, value)},
                    {"input_dim_idx", options.input_dim_idx},
                    {"output_dim_idx", options.output_dim_idx},
                    {"force_cpu", options.force_cpu}});
  return out;
}

Var& uniform_random(const Extents& shape, const UniformRandomOptions& options, SourceLine line) {
  const LineScope scope(line);
  return random(
      "uniform_random", shape, options.dtype, options.name, options.seed,
      {{"min", static_cast<float>(options.min)}, {"max", static_cast<float>(options.max)}});
}

Var& gaussian_random(const Extents& shape, const GaussianRandomOptions& options, SourceLine line) {
  const LineScope scope(line);
  return random(
      "gaussian_random", shape, options.dtype, options.name, options.seed,
      {{"mean", static_cast<float>(options.mean)}, {"std", static_cast<float>(options.std)}});
}

Var& assign(const Tensor& value, Var* output, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("assign");
  Attrs attrs = {{"shape", value.shape().to_vector()}, {"dtype", wire_number(value.dtype())}};
  switch (value.dtype()) {
    case DType::float32:
      attrs["fp32_values"] = values_of<float>(value);
      break;
    case DType::int32:
      attrs["int32_values"] = values_of<int32_t>(value);
      break;
    case DType::int64:
      attrs["int64_values"] = values_of<int64_t>(value);
      break;
    case DType::boolean:
      attrs["bool_values"] = values_of<bool, int32_t>(value);
      break;
    default:
      throw helper
          .error(ErrorKind::type_mismatch,
                 cat("a ", name_of(value.dtype()), " array cannot be assigned"))
          .fix("convert it to float32, int32, int64 or bool");
  }
  Var& out = output ? *output : helper.create_variable_for_type_inference(value.dtype());
  helper.append_op("assign_value", {}, {{"Out", out}}, std::move(attrs));
  return out;
}

}  // namespace trireme::layers
