// Blocks under a condition: layers/control_flow.h.
#include "layers/control_flow.h"

#include "python/binding/casters.h"

namespace trireme::binding {

using namespace pybind11::literals;
using layers::ConditionalBlock;
using layers::Switch;

void bind_layers_control(py::module_& m) {
  py::class_<ConditionalBlock>(m, "ConditionalBlock")
      .def(py::init([](const Vars& inputs, bool is_scalar_condition, const Text& name) {
             return ConditionalBlock(inputs, is_scalar_condition, name, python_line());
           }),
           "inputs"_a, "is_scalar_condition"_a = false, "name"_a = py::none())
      .def("begin", &ConditionalBlock::begin)
      .def("complete", &ConditionalBlock::complete)
      .def("abandon", &ConditionalBlock::abandon);
  py::class_<Switch>(m, "Switch")
      .def(py::init<>())
      .def("when", [](Switch& s, Var& condition) { return s.when(condition, python_line()); })
      .def("otherwise", [](Switch& s) { return s.otherwise(python_line()); });
}

}  // namespace trireme::binding
