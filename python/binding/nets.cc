// fluid.nets: layers/nets.h.
#include "layers/nets.h"

#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

// One entry for every convolution: a single value serves all.
template <class T>
std::vector<T> one_or_many(const py::object& value) {
  if (is_sequence(value)) return value.cast<std::vector<T>>();
  return {value.cast<T>()};
}

}  // namespace

using namespace pybind11::literals;

void bind_nets(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "simple_img_conv_pool",
      [](Var& input, int num_filters, Pair filter_size, Pair pool_size, Pair pool_stride,
         const Padding& pool_padding, const std::string& pool_type, bool global_pooling,
         Pair conv_stride, const Padding& conv_padding, Pair conv_dilation, int conv_groups,
         const ParamArg& param_attr, const ParamArg& bias_attr, const Text& act, bool use_cudnn) {
        return &layers::simple_img_conv_pool(
            input,
            {num_filters, filter_size, pool_size, pool_stride, pool_padding, pool_type,
             global_pooling, conv_stride, conv_padding, conv_dilation, conv_groups, param_attr,
             bias_attr, act, use_cudnn},
            python_line());
      },
      "input"_a, "num_filters"_a, "filter_size"_a, "pool_size"_a, "pool_stride"_a,
      "pool_padding"_a = 0, "pool_type"_a = "max", "global_pooling"_a = false, "conv_stride"_a = 1,
      "conv_padding"_a = 0, "conv_dilation"_a = 1, "conv_groups"_a = 1, "param_attr"_a = none,
      "bias_attr"_a = none, "act"_a = none, "use_cudnn"_a = true);
  m.def(
      "img_conv_group",
      [](Var& input, const std::vector<int>& conv_num_filter, Pair pool_size,
         const py::object& conv_padding, const py::object& conv_filter_size, const Text& conv_act,
         const ParamArgs& param_attr, const py::object& conv_with_batchnorm,
         const py::object& conv_batchnorm_drop_rate, Pair pool_stride, const std::string& pool_type,
         bool use_cudnn) {
        return &layers::img_conv_group(
            input,
            {conv_num_filter, pool_size, one_or_many<int>(conv_padding),
             one_or_many<int>(conv_filter_size), conv_act, param_attr.list(),
             one_or_many<bool>(conv_with_batchnorm), one_or_many<double>(conv_batchnorm_drop_rate),
             pool_stride, pool_type, use_cudnn},
            python_line());
      },
      "input"_a, "conv_num_filter"_a, "pool_size"_a, "conv_padding"_a = 1, "conv_filter_size"_a = 3,
      "conv_act"_a = none, "param_attr"_a = none, "conv_with_batchnorm"_a = false,
      "conv_batchnorm_drop_rate"_a = 0.0, "pool_stride"_a = 1, "pool_type"_a = "max",
      "use_cudnn"_a = true);
  m.def(
      "sequence_conv_pool",
      [](Var& input, int num_filters, int filter_size, const ParamArg& param_attr, const Text& act,
         const std::string& pool_type, const ParamArg& bias_attr) {
        return &layers::sequence_conv_pool(
            input, {num_filters, filter_size, param_attr, act, pool_type, bias_attr},
            python_line());
      },
      "input"_a, "num_filters"_a, "filter_size"_a, "param_attr"_a = none, "act"_a = "sigmoid",
      "pool_type"_a = "max", "bias_attr"_a = none);
  m.def(
      "glu", [](Var& input, int dim) { return &layers::glu(input, dim, python_line()); }, "input"_a,
      "dim"_a = -1);
  m.def(
      "scaled_dot_product_attention",
      [](Var& queries, Var& keys, Var& values, int num_heads, double dropout_rate) {
        return &layers::scaled_dot_product_attention(queries, keys, values,
                                                     {num_heads, dropout_rate}, python_line());
      },
      "queries"_a, "keys"_a, "values"_a, "num_heads"_a = 1, "dropout_rate"_a = 0.0);
}

}  // namespace trireme::binding
