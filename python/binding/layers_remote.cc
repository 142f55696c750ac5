// Layers that talk to other processes: layers/remote.h.
#include "layers/remote.h"

#include "python/binding/casters.h"

namespace trireme::binding {

using namespace pybind11::literals;
using layers::ListenAndServ;

void bind_layers_remote(py::module_& m) {
  const py::object none = py::none();
  py::class_<ListenAndServ, SubBlock>(m, "ListenAndServ")
      .def(py::init([](const std::string& endpoint, const Vars& inputs, int fan_in) {
             return ListenAndServ(endpoint, inputs, fan_in, python_line());
           }),
           "endpoint"_a, "inputs"_a, "fan_in"_a = 1);
  m.def(
      "Send",
      [](const std::string& endpoints, const Vars& send_vars,
         const std::optional<Vars>& dummy_output, bool sync) {
        layers::send(endpoints, send_vars, {dummy_output.value_or(Vars{}), sync}, python_line());
      },
      "endpoints"_a, "send_vars"_a, "dummy_output"_a = none, "sync"_a = true);
  m.def(
      "Recv",
      [](const std::string& endpoints, const Vars& get_vars, const std::optional<Vars>& dummy_input,
         bool sync) {
        layers::recv(endpoints, get_vars, {dummy_input.value_or(Vars{}), sync}, python_line());
        return get_vars.list();
      },
      "endpoints"_a, "get_vars"_a, "dummy_input"_a = none, "sync"_a = true);
  m.def(
      "_allreduce",
      [](Var& x, Var* out, const std::string& reduce_type, bool sync_mode) {
        return &layers::allreduce(x, {out, reduce_type, sync_mode}, python_line());
      },
      "x"_a, "out"_a = none, "reduce_type"_a = "sum", "sync_mode"_a = false);
}

}  // namespace trireme::binding
