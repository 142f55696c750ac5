// Making, reshaping and joining tensors: layers/tensor.h and layers/data.h.
#include "layers/tensor.h"

#include "layers/data.h"
#include "layers/initializer.h"
#include "python/binding/casters.h"
#include "python/binding/kept.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;

// None and negative numbers are unknown extents.
std::vector<int64_t> declared_shape(const py::object& shape) {
  if (!is_sequence(shape)) {
    throw Error(ErrorKind::type_mismatch, "the shape of a data variable must be a list or a tuple");
  }
  std::vector<int64_t> dims;
  for (py::handle dim : shape) dims.push_back(dim.is_none() ? -1 : dim.cast<int64_t>());
  return dims;
}

void bind_data(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "data",
      [](const std::string& name, const py::object& shape, bool append_batch_size, DType dtype,
         int lod_level, std::optional<VarType> type, bool stop_gradient) {
        return &layers::data(name, declared_shape(shape),
                             {append_batch_size, dtype, lod_level,
                              type.value_or(VarType::lod_tensor), stop_gradient},
                             python_line());
      },
      "name"_a, "shape"_a, "append_batch_size"_a = true, "dtype"_a = "float32", "lod_level"_a = 0,
      "type"_a = none, "stop_gradient"_a = true);
  m.def(
      "checked_data",
      [](const std::string& name, const py::object& shape, std::optional<DType> dtype,
         int lod_level) {
        layers::CheckedDataOptions options;
        if (dtype) options.dtype = *dtype;
        options.lod_level = lod_level;
        return &layers::checked_data(name, declared_shape(shape), options, python_line());
      },
      "name"_a, "shape"_a, "dtype"_a = none, "lod_level"_a = 0);
}

void bind_making(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "create_tensor",
      [](DType dtype, const Text& name, bool persistable) {
        return &layers::create_tensor(dtype, name, persistable, python_line());
      },
      "dtype"_a, "name"_a = none, "persistable"_a = false);
  m.def(
      "create_parameter",
      [](const std::vector<int64_t>& shape, DType dtype, const Text& name, const ParamArg& attr,
         bool is_bias, const py::object& default_initializer) {
        return &layers::create_parameter(
            shape, dtype, {name, attr, is_bias, kept<Initializer>(default_initializer)},
            python_line());
      },
      "shape"_a, "dtype"_a, "name"_a = none, "attr"_a = none, "is_bias"_a = false,
      "default_initializer"_a = none);
  m.def(
      "create_global_var",
      [](const std::vector<int64_t>& shape, double value, DType dtype, bool persistable,
         bool force_cpu, const Text& name) {
        return &layers::create_global_var(shape, value, dtype, {persistable, force_cpu, name},
                                          python_line());
      },
      "shape"_a, "value"_a, "dtype"_a, "persistable"_a = false, "force_cpu"_a = false,
      "name"_a = none);
  m.def(
      "fill_constant",
      [](const Extents& shape, DType dtype, const py::object& value, bool force_cpu, Var* out,
         const Text& name) {
        const layers::FillOptions options = {force_cpu, out, name};
        if (py::isinstance<Var>(value)) {
          return &layers::fill_constant(shape, dtype, value.cast<Var&>(), options, python_line());
        }
        return &layers::fill_constant(shape, dtype, value.cast<Scalar>(), options, python_line());
      },
      "shape"_a, "dtype"_a, "value"_a, "force_cpu"_a = false, "out"_a = none, "name"_a = none);
  m.def(
      "fill_constant_batch_size_like",
      [](Var& input, const std::vector<int64_t>& shape, DType dtype, Scalar value,
         int input_dim_idx, int output_dim_idx, bool force_cpu) {
        return &layers::fill_constant_batch_size_like(
            input, shape, dtype, value, {input_dim_idx, output_dim_idx, force_cpu}, python_line());
      },
      "input"_a, "shape"_a, "dtype"_a, "value"_a, "input_dim_idx"_a = 0, "output_dim_idx"_a = 0,
      "force_cpu"_a = false);
  m.def(
      "zeros_like", [](Var& x, Var* out) { return &layers::zeros_like(x, out, python_line()); },
      "x"_a, "out"_a = none);
  m.def(
      "ones_like", [](Var& x, Var* out) { return &layers::ones_like(x, out, python_line()); },
      "x"_a, "out"_a = none);
  m.def(
      "uniform_random",
      [](const Extents& shape, DType dtype, double min, double max, int seed, const Text& name) {
        return &layers::uniform_random(shape, {dtype, min, max, seed, name}, python_line());
      },
      "shape"_a, "dtype"_a = "float32", "min"_a = -1.0, "max"_a = 1.0, "seed"_a = 0,
      "name"_a = none);
  m.def(
      "gaussian_random",
      [](const Extents& shape, double mean, double std, int seed, DType dtype, const Text& name) {
        return &layers::gaussian_random(shape, {mean, std, seed, dtype, name}, python_line());
      },
      "shape"_a, "mean"_a = 0.0, "std"_a = 1.0, "seed"_a = 0, "dtype"_a = "float32",
      "name"_a = none);
  m.def(
      "assign",
      [](const py::object& input, Var* output) {
        if (py::isinstance<Var>(input)) {
          return &layers::assign(input.cast<Var&>(), output, python_line());
        }
        return &layers::assign(from_numpy(input), output, python_line());
      },
      "input"_a, "output"_a = none);
  m.def(
      "cast", [](Var& x, DType dtype) { return &layers::cast(x, dtype, python_line()); }, "x"_a,
      "dtype"_a);
}

// A table: a definition for each layer.
void bind_joining(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "concat",
      [](const Vars& input, const Extent& axis, const Text& name) {
        return &layers::concat(input, axis, name, python_line());
      },
      "input"_a, "axis"_a = 0, "name"_a = none);
  m.def(
      "sums", [](const Vars& input, Var* out) { return &layers::sums(input, out, python_line()); },
      "input"_a, "out"_a = none);
  m.def(
      "split",
      [](Var& input, const py::object& num_or_sections, const Extent& dim, const Text& name) {
        if (is_integer_like(num_or_sections)) {
          return layers::split(input, num_or_sections.cast<int>(), dim, name, python_line());
        }
        return layers::split(input, num_or_sections.cast<Extents>(), dim, name, python_line());
      },
      "input"_a, "num_or_sections"_a, "dim"_a = -1, "name"_a = none);
  m.def(
      "stack", [](const Vars& x, int axis) { return &layers::stack(x, axis, python_line()); },
      "x"_a, "axis"_a = 0);
  m.def(
      "reshape",
      [](Var& x, const Extents& shape, Var* actual_shape, const Text& act, bool inplace,
         const Text& name) {
        return &layers::reshape(x, shape, {actual_shape, act, inplace, name}, python_line());
      },
      "x"_a, "shape"_a, "actual_shape"_a = none, "act"_a = none, "inplace"_a = false,
      "name"_a = none);
  m.def(
      "transpose",
      [](Var& x, const std::vector<int>& perm, const Text& name) {
        return &layers::transpose(x, perm, name, python_line());
      },
      "x"_a, "perm"_a, "name"_a = none);
  m.def(
      "squeeze",
      [](Var& input, const std::vector<int>& axes, const Text& name) {
        return &layers::squeeze(input, axes, name, python_line());
      },
      "input"_a, "axes"_a, "name"_a = none);
  m.def(
      "unsqueeze",
      [](Var& input, const py::object& axes, const Text& name) {
        const Extents list = is_integer_like(axes) ? Extents(std::vector<int>{axes.cast<int>()})
                                                   : axes.cast<Extents>();
        return &layers::unsqueeze(input, list, name, python_line());
      },
      "input"_a, "axes"_a, "name"_a = none);
  m.def(
      "flatten",
      [](Var& x, int axis, const Text& name) {
        return &layers::flatten(x, axis, name, python_line());
      },
      "x"_a, "axis"_a = 1, "name"_a = none);
  m.def(
      "expand",
      [](Var& x, const Extents& expand_times, const Text& name) {
        return &layers::expand(x, expand_times, name, python_line());
      },
      "x"_a, "expand_times"_a, "name"_a = none);
  m.def(
      "slice",
      [](Var& input, const std::vector<int>& axes, const Extents& starts, const Extents& ends) {
        return &layers::slice(input, axes, starts, ends, python_line());
      },
      "input"_a, "axes"_a, "starts"_a, "ends"_a);
  m.def(
      "shape", [](Var& input) { return &layers::shape(input, python_line()); }, "input"_a);
  m.def(
      "gather",
      [](Var& input, Var& index, bool overwrite) {
        return &layers::gather(input, index, overwrite, python_line());
      },
      "input"_a, "index"_a, "overwrite"_a = true);
  m.def(
      "scale",
      [](Var& x, const py::object& scale, double bias, bool bias_after_scale, const Text& act,
         const Text& name) {
        layers::ScaleOptions options;
        if (py::isinstance<Var>(scale)) {
          options.scale_tensor = scale.cast<Var*>();
        } else {
          options.scale = scale.cast<double>();
        }
        options.bias = bias;
        options.bias_after_scale = bias_after_scale;
        options.act = act;
        options.name = name;
        return &layers::scale(x, options, python_line());
      },
      "x"_a, "scale"_a = 1.0, "bias"_a = 0.0, "bias_after_scale"_a = true, "act"_a = none,
      "name"_a = none);
  m.def(
      "increment",
      [](Var& x, double value, bool in_place) {
        return &layers::increment(x, value, in_place, python_line());
      },
      "x"_a, "value"_a = 1.0, "in_place"_a = true);
}

}  // namespace

void bind_layers_tensor(py::module_& m) {
  bind_data(m);
  bind_making(m);
  bind_joining(m);
}

}  // namespace trireme::binding
