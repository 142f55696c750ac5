// Recurrent cells and stacks of them: layers/cell.h.
#include "layers/cell.h"

#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;
using layers::BasicGruUnit;
using layers::BasicLstmUnit;

layers::Activation activation_from_python(const py::object& function) {
  if (function.is_none()) return {};
  return [function](Var& x) -> Var& { return *function(&x).cast<Var*>(); };
}

layers::BasicRnnOptions stack_options(layers::CellOptions cell, int num_layers,
                                      Var* sequence_length, std::optional<double> dropout_prob,
                                      bool bidirectional, bool batch_first, const Text& name) {
  return {std::move(cell), num_layers, sequence_length, dropout_prob.value_or(0), bidirectional,
          batch_first,     name};
}

void bind_units(py::module_& m) {
  const py::object none = py::none();
  py::class_<BasicLstmUnit>(m, "BasicLSTMUnit")
      .def(py::init([](const std::string& name_scope, int64_t hidden_size,
                       const ParamArg& param_attr, const ParamArg& bias_attr,
                       const py::object& gate_activation, const py::object& activation,
                       double forget_bias, DType dtype) {
             return BasicLstmUnit(
                 name_scope,
                 {hidden_size, param_attr, bias_attr, activation_from_python(gate_activation),
                  activation_from_python(activation), forget_bias, dtype},
                 python_line());
           }),
           "name_scope"_a, "hidden_size"_a, "param_attr"_a = none, "bias_attr"_a = none,
           "gate_activation"_a = none, "activation"_a = none, "forget_bias"_a = 1.0,
           "dtype"_a = "float32")
      .def(
          "__call__",
          [](BasicLstmUnit& unit, Var& input, Var& pre_hidden, Var& pre_cell) {
            const auto states = unit.step(input, {&pre_hidden, &pre_cell}, python_line());
            return py::make_tuple(states[0], states[1]);
          },
          "input"_a, "pre_hidden"_a, "pre_cell"_a);
  py::class_<BasicGruUnit>(m, "BasicGRUUnit")
      .def(py::init([](const std::string& name_scope, int64_t hidden_size,
                       const ParamArg& param_attr, const ParamArg& bias_attr,
                       const py::object& gate_activation, const py::object& activation,
                       DType dtype) {
             return BasicGruUnit(
                 name_scope,
                 {hidden_size, param_attr, bias_attr, activation_from_python(gate_activation),
                  activation_from_python(activation), 0, dtype},
                 python_line());
           }),
           "name_scope"_a, "hidden_size"_a, "param_attr"_a = none, "bias_attr"_a = none,
           "gate_activation"_a = none, "activation"_a = none, "dtype"_a = "float32")
      .def(
          "__call__",
          [](BasicGruUnit& unit, Var& input, Var& pre_hidden) {
            return unit.step(input, {&pre_hidden}, python_line())[0];
          },
          "input"_a, "pre_hidden"_a);
}

}  // namespace

void bind_layers_cell(py::module_& m) {
  const py::object none = py::none();
  bind_units(m);
  m.def(
      "basic_lstm",
      [](Var& input, Var* init_hidden, Var* init_cell, int64_t hidden_size, int num_layers,
         Var* sequence_length, std::optional<double> dropout_prob, bool bidirectional,
         bool batch_first, const ParamArg& param_attr, const ParamArg& bias_attr,
         const py::object& gate_activation, const py::object& activation, double forget_bias,
         DType dtype, const Text& name) {
        const layers::BasicRnn made = layers::basic_lstm(
            input, init_hidden, init_cell,
            stack_options(
                {hidden_size, param_attr, bias_attr, activation_from_python(gate_activation),
                 activation_from_python(activation), forget_bias, dtype},
                num_layers, sequence_length, dropout_prob, bidirectional, batch_first, name),
            python_line());
        return py::make_tuple(&made.out, made.last[0], made.last[1]);
      },
      "input"_a, "init_hidden"_a, "init_cell"_a, "hidden_size"_a, "num_layers"_a = 1,
      "sequence_length"_a = none, "dropout_prob"_a = 0.0, "bidirectional"_a = false,
      "batch_first"_a = true, "param_attr"_a = none, "bias_attr"_a = none,
      "gate_activation"_a = none, "activation"_a = none, "forget_bias"_a = 1.0,
      "dtype"_a = "float32", "name"_a = "basic_lstm");
  m.def(
      "basic_gru",
      [](Var& input, Var* init_hidden, int64_t hidden_size, int num_layers, Var* sequence_length,
         std::optional<double> dropout_prob, bool bidirectional, bool batch_first,
         const ParamArg& param_attr, const ParamArg& bias_attr, const py::object& gate_activation,
         const py::object& activation, DType dtype, const Text& name) {
        const layers::BasicRnn made = layers::basic_gru(
            input, init_hidden,
            stack_options(
                {hidden_size, param_attr, bias_attr, activation_from_python(gate_activation),
                 activation_from_python(activation), 0, dtype},
                num_layers, sequence_length, dropout_prob, bidirectional, batch_first, name),
            python_line());
        return py::make_tuple(&made.out, made.last[0]);
      },
      "input"_a, "init_hidden"_a, "hidden_size"_a, "num_layers"_a = 1, "sequence_length"_a = none,
      "dropout_prob"_a = 0.0, "bidirectional"_a = false, "batch_first"_a = true,
      "param_attr"_a = none, "bias_attr"_a = none, "gate_activation"_a = none,
      "activation"_a = none, "dtype"_a = "float32", "name"_a = "basic_gru");
}

}  // namespace trireme::binding
