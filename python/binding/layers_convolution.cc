// Transposed convolutions, and those over volumes: layers/convolution.h.
#include "layers/convolution.h"

#include "core/text.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;

layers::Extent3 extent3(py::handle value, const char* argument) {
  if (is_integer_like(value)) return {value.cast<int>()};
  if (is_sequence(value)) {
    const auto ints = value.cast<std::vector<int>>();
    if (ints.size() == 1) return {ints[0]};
    if (ints.size() == 3) return {ints[0], ints[1], ints[2]};
  }
  throw Error(ErrorKind::type_mismatch,
              cat(argument, " must be one integer or three, got ", std::string(py::repr(value))));
}

std::optional<layers::Extent3> optional_extent3(py::handle value, const char* argument) {
  if (value.is_none()) return std::nullopt;
  return extent3(value, argument);
}

std::optional<Pair> optional_pair(py::handle value) {
  if (value.is_none()) return std::nullopt;
  return value.cast<Pair>();
}

}  // namespace

void bind_layers_convolution(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "conv2d_transpose",
      [](Var& input, int num_filters, const py::object& output_size, const py::object& filter_size,
         const Padding& padding, Pair stride, Pair dilation, std::optional<int> groups,
         const ParamArg& param_attr, const ParamArg& bias_attr, bool use_cudnn, const Text& act,
         const Text& name, const std::string& data_format) {
        return &layers::conv2d_transpose(
            input,
            {num_filters, optional_pair(output_size), optional_pair(filter_size), padding, stride,
             dilation, groups, param_attr, bias_attr, use_cudnn, act, name, data_format},
            python_line());
      },
      "input"_a, "num_filters"_a, "output_size"_a = none, "filter_size"_a = none, "padding"_a = 0,
      "stride"_a = 1, "dilation"_a = 1, "groups"_a = none, "param_attr"_a = none,
      "bias_attr"_a = none, "use_cudnn"_a = true, "act"_a = none, "name"_a = none,
      "data_format"_a = "NCHW");
  m.def(
      "conv3d",
      [](Var& input, int num_filters, const py::object& filter_size, const py::object& stride,
         const Padding& padding, const py::object& dilation, std::optional<int> groups,
         const ParamArg& param_attr, const ParamArg& bias_attr, bool use_cudnn, const Text& act,
         const Text& name, const std::string& data_format) {
        return &layers::conv3d(input,
                               {num_filters, extent3(filter_size, "filter_size"),
                                extent3(stride, "stride"), padding, extent3(dilation, "dilation"),
                                groups, param_attr, bias_attr, use_cudnn, act, name, data_format},
                               python_line());
      },
      "input"_a, "num_filters"_a, "filter_size"_a, "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = none, "param_attr"_a = none, "bias_attr"_a = none,
      "use_cudnn"_a = true, "act"_a = none, "name"_a = none, "data_format"_a = "NCDHW");
  m.def(
      "conv3d_transpose",
      [](Var& input, int num_filters, const py::object& output_size, const py::object& filter_size,
         const Padding& padding, const py::object& stride, const py::object& dilation,
         std::optional<int> groups, const ParamArg& param_attr, const ParamArg& bias_attr,
         bool use_cudnn, const Text& act, const Text& name, const std::string& data_format) {
        return &layers::conv3d_transpose(
            input,
            {num_filters, optional_extent3(output_size, "output_size"),
             optional_extent3(filter_size, "filter_size"), padding, extent3(stride, "stride"),
             extent3(dilation, "dilation"), groups, param_attr, bias_attr, use_cudnn, act, name,
             data_format},
            python_line());
      },
      "input"_a, "num_filters"_a, "output_size"_a = none, "filter_size"_a = none, "padding"_a = 0,
      "stride"_a = 1, "dilation"_a = 1, "groups"_a = none, "param_attr"_a = none,
      "bias_attr"_a = none, "use_cudnn"_a = true, "act"_a = none, "name"_a = none,
      "data_format"_a = "NCDHW");
}

}  // namespace trireme::binding
