// Layers over sequences: layers/sequence.h.
#include "layers/sequence.h"

#include "layers/initializer.h"
#include "python/binding/casters.h"
#include "python/binding/kept.h"

namespace trireme::binding {

using namespace pybind11::literals;

void bind_layers_sequence(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "row_conv",
      [](Var& input, int future_context_size, const ParamArg& param_attr, const Text& act) {
        return &layers::row_conv(input, {future_context_size, param_attr, act}, python_line());
      },
      "input"_a, "future_context_size"_a, "param_attr"_a = none, "act"_a = none);
  m.def(
      "sequence_conv",
      [](Var& input, int num_filters, int filter_size, int filter_stride,
         bool,  // padding: has no effect in the original either
         std::optional<int> padding_start, const ParamArg& bias_attr, const ParamArg& param_attr,
         const Text& act, const Text& name) {
        return &layers::sequence_conv(input,
                                      {num_filters, filter_size, filter_stride, padding_start,
                                       param_attr, bias_attr, act, name},
                                      python_line());
      },
      "input"_a, "num_filters"_a, "filter_size"_a = 3, "filter_stride"_a = 1, "padding"_a = true,
      "padding_start"_a = none, "bias_attr"_a = none, "param_attr"_a = none, "act"_a = none,
      "name"_a = none);
  m.def(
      "sequence_pool",
      [](Var& input, const std::string& pool_type, bool is_test, double pad_value) {
        return &layers::sequence_pool(input, pool_type, {is_test, pad_value}, python_line());
      },
      "input"_a, "pool_type"_a, "is_test"_a = false, "pad_value"_a = 0.0);
  m.def(
      "sequence_first_step",
      [](Var& input) { return &layers::sequence_first_step(input, python_line()); }, "input"_a);
  m.def(
      "sequence_last_step",
      [](Var& input) { return &layers::sequence_last_step(input, python_line()); }, "input"_a);
  m.def(
      "sequence_softmax",
      [](Var& input, bool use_cudnn, const Text& name) {
        return &layers::sequence_softmax(input, {use_cudnn, name}, python_line());
      },
      "input"_a, "use_cudnn"_a = false, "name"_a = none);
  m.def(
      "sequence_expand",
      [](Var& x, Var& y, int ref_level, const Text& name) {
        return &layers::sequence_expand(x, y, {ref_level, name}, python_line());
      },
      "x"_a, "y"_a, "ref_level"_a = -1, "name"_a = none);
  m.def(
      "dynamic_lstm",
      [](Var& input, int64_t size, Var* h_0, Var* c_0, const ParamArg& param_attr,
         const ParamArg& bias_attr, bool use_peepholes, bool is_reverse,
         const std::string& gate_activation, const std::string& cell_activation,
         const std::string& candidate_activation, DType dtype, const Text& name) {
        const layers::Lstm result = layers::dynamic_lstm(
            input,
            {size, h_0, c_0, param_attr, bias_attr, use_peepholes, is_reverse, gate_activation,
             cell_activation, candidate_activation, dtype, name},
            python_line());
        return std::pair<Var*, Var*>(&result.hidden, &result.cell);
      },
      "input"_a, "size"_a, "h_0"_a = none, "c_0"_a = none, "param_attr"_a = none,
      "bias_attr"_a = none, "use_peepholes"_a = true, "is_reverse"_a = false,
      "gate_activation"_a = "sigmoid", "cell_activation"_a = "tanh",
      "candidate_activation"_a = "tanh", "dtype"_a = "float32", "name"_a = none);
  m.def(
      "dynamic_gru",
      [](Var& input, int64_t size, const ParamArg& param_attr, const ParamArg& bias_attr,
         bool is_reverse, const std::string& gate_activation,
         const std::string& candidate_activation, Var* h_0, bool origin_mode) {
        return &layers::dynamic_gru(input,
                                    {size, param_attr, bias_attr, is_reverse, gate_activation,
                                     candidate_activation, h_0, origin_mode},
                                    python_line());
      },
      "input"_a, "size"_a, "param_attr"_a = none, "bias_attr"_a = none, "is_reverse"_a = false,
      "gate_activation"_a = "sigmoid", "candidate_activation"_a = "tanh", "h_0"_a = none,
      "origin_mode"_a = false);
  m.def(
      "lstm",
      [](Var& input, Var& init_h, Var& init_c, int max_len, int hidden_size, int num_layers,
         double dropout_prob, bool is_bidirec, bool is_test, const Text& name,
         const py::object& default_initializer, int seed) {
        const layers::LstmStates states =
            layers::lstm(input, init_h, init_c,
                         {max_len, hidden_size, num_layers, dropout_prob, is_bidirec, is_test, name,
                          kept<Initializer>(default_initializer), seed},
                         python_line());
        return py::make_tuple(&states.out, &states.last_h, &states.last_c);
      },
      "input"_a, "init_h"_a, "init_c"_a, "max_len"_a, "hidden_size"_a, "num_layers"_a,
      "dropout_prob"_a = 0.0, "is_bidirec"_a = false, "is_test"_a = false, "name"_a = none,
      "default_initializer"_a = none, "seed"_a = -1);
  m.def(
      "lod_reset",
      [](Var& x, Var* y, const std::optional<std::vector<int>>& target_lod) {
        if (y) return &layers::lod_reset(x, *y, python_line());
        if (target_lod) return &layers::lod_reset(x, *target_lod, python_line());
        throw Error("lod_reset has neither y nor target_lod").fix("give one of them");
      },
      "x"_a, "y"_a = none, "target_lod"_a = none);
}

}  // namespace trireme::binding
