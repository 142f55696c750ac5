// Layers that act in the caller's process: layers/host.h. py_func.cc registers functions for it.
#include "layers/host.h"

#include "layers/ops.h"
#include "python/binding/casters.h"

namespace trireme::binding {

using namespace pybind11::literals;

void bind_layers_host(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "Print",
      [](Var& input, int first_n, const Text& message, int summarize, bool print_tensor_name,
         bool print_tensor_type, bool print_tensor_shape, bool print_tensor_layout,
         bool print_tensor_lod, const std::string& print_phase) {
        return &layers::print(
            input,
            {first_n, message, summarize, print_tensor_name, print_tensor_type, print_tensor_shape,
             print_tensor_layout, print_tensor_lod, print_phase},
            python_line());
      },
      "input"_a, "first_n"_a = -1, "message"_a = none, "summarize"_a = 20,
      "print_tensor_name"_a = true, "print_tensor_type"_a = true, "print_tensor_shape"_a = true,
      "print_tensor_layout"_a = true, "print_tensor_lod"_a = true, "print_phase"_a = "both");
  m.def(
      "Assert",
      [](Var& cond, const std::optional<Vars>& data, int64_t summarize, const Text& name) {
        layers::assert_true(cond, {data.value_or(Vars{}), summarize, name}, python_line());
      },
      "cond"_a, "data"_a = none, "summarize"_a = 20, "name"_a = none);
  m.def(
      "py_func",
      [](int function, const Vars& x, const Vars& out, int backward,
         const std::vector<std::string>& skip) {
        layers::py_func(function, x, out, {backward, skip}, python_line());
      },
      "function"_a, "x"_a, "out"_a, "backward"_a, "skip"_a);
  m.def(
      "is_empty", [](Var& x, Var* cond) { return &layers::is_empty(x, cond, python_line()); },
      "x"_a, "cond"_a = none);
}

}  // namespace trireme::binding
