// Labels with structure, recurrent steps, and norms over groups: layers/structured.h,
// layers/norm.h.
#include "layers/structured.h"

#include "layers/norm.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;

std::optional<ParamArg> optional_param(const py::object& value) {
  if (value.is_none()) return std::nullopt;
  return value.cast<ParamArg>();
}

void bind_group_norms(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "group_norm",
      [](Var& input, int groups, double epsilon, const py::object& param_attr,
         const py::object& bias_attr, const Text& act, const std::string& data_layout,
         const Text& name) {
        return &layers::group_norm(input,
                                   {groups, epsilon, optional_param(param_attr),
                                    optional_param(bias_attr), act, data_layout, name},
                                   python_line());
      },
      "input"_a, "groups"_a, "epsilon"_a = 1e-05, "param_attr"_a = none, "bias_attr"_a = none,
      "act"_a = none, "data_layout"_a = "NCHW", "name"_a = none);
  m.def(
      "instance_norm",
      [](Var& input, double epsilon, const ParamArg& param_attr, const ParamArg& bias_attr,
         const Text& name) {
        return &layers::instance_norm(input, {epsilon, param_attr, bias_attr, name}, python_line());
      },
      "input"_a, "epsilon"_a = 1e-05, "param_attr"_a = none, "bias_attr"_a = none, "name"_a = none);
  m.def(
      "prelu",
      [](Var& x, const std::string& mode, const ParamArg& param_attr, const Text& name) {
        return &layers::prelu(x, {mode, param_attr, name}, python_line());
      },
      "x"_a, "mode"_a, "param_attr"_a = none, "name"_a = none);
  m.def(
      "spectral_norm",
      [](Var& weight, int dim, int power_iters, double eps, const Text& name) {
        return &layers::spectral_norm(weight, {dim, power_iters, eps, name}, python_line());
      },
      "weight"_a, "dim"_a = 0, "power_iters"_a = 1, "eps"_a = 1e-12, "name"_a = none);
}

void bind_crf(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "linear_chain_crf",
      [](Var& input, Var& label, const ParamArg& param_attr, Var* length) {
        return &layers::linear_chain_crf(input, label, {param_attr, length}, python_line());
      },
      "input"_a, "label"_a, "param_attr"_a = none, "length"_a = none);
  m.def(
      "crf_decoding",
      [](Var& input, const ParamArg& param_attr, Var* label, Var* length) {
        return &layers::crf_decoding(input, {param_attr.attr().name, label, length}, python_line());
      },
      "input"_a, "param_attr"_a, "label"_a = none, "length"_a = none);
}

void bind_many_classes(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "nce",
      [](Var& input, Var& label, int num_total_classes, Var* sample_weight,
         const ParamArg& param_attr, const ParamArg& bias_attr, std::optional<int> num_neg_samples,
         const Text& name, const std::string& sampler,
         const std::optional<std::vector<double>>& custom_dist, int seed, bool is_sparse) {
        return &layers::nce(
            input, label,
            {num_total_classes, sample_weight, param_attr, bias_attr, num_neg_samples.value_or(10),
             name, sampler, custom_dist.value_or(std::vector<double>{}), seed, is_sparse},
            python_line());
      },
      "input"_a, "label"_a, "num_total_classes"_a, "sample_weight"_a = none, "param_attr"_a = none,
      "bias_attr"_a = none, "num_neg_samples"_a = none, "name"_a = none, "sampler"_a = "uniform",
      "custom_dist"_a = none, "seed"_a = 0, "is_sparse"_a = false);
  m.def(
      "hsigmoid",
      [](Var& input, Var& label, int num_classes, const ParamArg& param_attr,
         const ParamArg& bias_attr, const Text& name, Var* path_table, Var* path_code,
         bool is_custom, bool is_sparse) {
        return &layers::hsigmoid(
            input, label,
            {num_classes, param_attr, bias_attr, name, path_table, path_code, is_custom, is_sparse},
            python_line());
      },
      "input"_a, "label"_a, "num_classes"_a, "param_attr"_a = none, "bias_attr"_a = none,
      "name"_a = none, "path_table"_a = none, "path_code"_a = none, "is_custom"_a = false,
      "is_sparse"_a = false);
}

void bind_recurrent(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "gru_unit",
      [](Var& input, Var& hidden, int64_t size, const ParamArg& param_attr,
         const ParamArg& bias_attr, const std::string& activation,
         const std::string& gate_activation, bool origin_mode) {
        const layers::GruStep step = layers::gru_unit(
            input, hidden, {size, param_attr, bias_attr, activation, gate_activation, origin_mode},
            python_line());
        return py::make_tuple(&step.hidden, &step.reset_hidden_previous, &step.gate);
      },
      "input"_a, "hidden"_a, "size"_a, "param_attr"_a = none, "bias_attr"_a = none,
      "activation"_a = "tanh", "gate_activation"_a = "sigmoid", "origin_mode"_a = false);
  m.def(
      "lstm_unit",
      [](Var& x_t, Var& hidden_t_prev, Var& cell_t_prev, double forget_bias,
         const ParamArg& param_attr, const ParamArg& bias_attr, const Text& name) {
        const layers::LstmStep step =
            layers::lstm_unit(x_t, hidden_t_prev, cell_t_prev,
                              {forget_bias, param_attr, bias_attr, name}, python_line());
        return py::make_tuple(&step.hidden, &step.cell);
      },
      "x_t"_a, "hidden_t_prev"_a, "cell_t_prev"_a, "forget_bias"_a = 0.0, "param_attr"_a = none,
      "bias_attr"_a = none, "name"_a = none);
  m.def(
      "dynamic_lstmp",
      [](Var& input, int64_t size, int64_t proj_size, const ParamArg& param_attr,
         const ParamArg& bias_attr, bool use_peepholes, bool is_reverse,
         const std::string& gate_activation, const std::string& cell_activation,
         const std::string& candidate_activation, const std::string& proj_activation, DType dtype,
         const Text& name, Var* h_0, Var* c_0, std::optional<double> cell_clip,
         std::optional<double> proj_clip) {
        const layers::Lstmp made = layers::dynamic_lstmp(
            input,
            {size, proj_size, param_attr, bias_attr, use_peepholes, is_reverse, gate_activation,
             cell_activation, candidate_activation, proj_activation, dtype, name, h_0, c_0,
             cell_clip, proj_clip},
            python_line());
        return py::make_tuple(&made.projection, &made.cell);
      },
      "input"_a, "size"_a, "proj_size"_a, "param_attr"_a = none, "bias_attr"_a = none,
      "use_peepholes"_a = true, "is_reverse"_a = false, "gate_activation"_a = "sigmoid",
      "cell_activation"_a = "tanh", "candidate_activation"_a = "tanh", "proj_activation"_a = "tanh",
      "dtype"_a = "float32", "name"_a = none, "h_0"_a = none, "c_0"_a = none, "cell_clip"_a = none,
      "proj_clip"_a = none);
}

}  // namespace

void bind_layers_structured(py::module_& m) {
  bind_group_norms(m);
  bind_crf(m);
  bind_many_classes(m);
  bind_recurrent(m);
}

}  // namespace trireme::binding
