// StaticRNN and DynamicRNN: layers/step_rnn.h.
#include "layers/step_rnn.h"

#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;
using layers::DynamicRNN;
using layers::StaticRNN;
using OptionalShape = std::optional<std::vector<int64_t>>;

// One output is a variable, several are a list of them.
py::object one_or_list(const std::vector<Var*>& outputs) {
  constexpr auto handle = py::return_value_policy::take_ownership;  // of the handle only
  return outputs.size() == 1 ? py::cast(outputs[0], handle) : py::cast(outputs, handle);
}

void bind_static_rnn(py::module_& m) {
  const py::object none = py::none();
  py::class_<StaticRNN, SubBlock>(m, "StaticRNN")
      .def(py::init([](const Text& name) { return StaticRNN(name, python_line()); }),
           "name"_a = none)
      .def(
          "memory",
          [](StaticRNN& rnn, Var* init, const OptionalShape& shape, Var* batch_ref,
             double init_value, int init_batch_dim_idx, int ref_batch_dim_idx) {
            return &rnn.memory({init, shape.value_or(std::vector<int64_t>{}), batch_ref, init_value,
                                init_batch_dim_idx, ref_batch_dim_idx},
                               python_line());
          },
          "init"_a = none, "shape"_a = none, "batch_ref"_a = none, "init_value"_a = 0.0,
          "init_batch_dim_idx"_a = 0, "ref_batch_dim_idx"_a = 1)
      .def(
          "step_input", [](StaticRNN& rnn, Var& x) { return &rnn.step_input(x, python_line()); },
          "x"_a)
      .def(
          "step_output", [](StaticRNN& rnn, Var& o) { rnn.step_output(o, python_line()); }, "o"_a)
      .def("output",
           [](StaticRNN& rnn, const py::args& outputs) {
             rnn.output(outputs.cast<Vars>(), python_line());
           })
      .def(
          "update_memory",
          [](StaticRNN& rnn, Var& mem, Var& var) { rnn.update_memory(mem, var, python_line()); },
          "mem"_a, "var"_a)
      .def("__call__", [](StaticRNN& rnn) { return one_or_list(rnn(python_line())); });
}

void bind_dynamic_rnn(py::module_& m) {
  const py::object none = py::none();
  py::class_<DynamicRNN>(m, "DynamicRNN")
      .def(py::init(
               [](const Text& name) { return std::make_unique<DynamicRNN>(name, python_line()); }),
           "name"_a = none)
      .def("begin", &DynamicRNN::begin)
      .def("complete", &DynamicRNN::complete)
      .def("abandon", &DynamicRNN::abandon)
      .def(
          "step_input",
          [](DynamicRNN& rnn, Var& x, int level) {
            return &rnn.step_input(x, level, python_line());
          },
          "x"_a, "level"_a = 0)
      .def(
          "static_input",
          [](DynamicRNN& rnn, Var& x) { return &rnn.static_input(x, python_line()); }, "x"_a)
      .def(
          "memory",
          [](DynamicRNN& rnn, Var* init, const OptionalShape& shape, double value,
             bool need_reorder, DType dtype) {
            if (!init && !shape) {
              throw Error("memory has neither init nor shape")
                  .in("dynamic_rnn")
                  .at(python_line())
                  .fix("give init, or the shape of one row");
            }
            return &rnn.memory(
                {init, shape.value_or(std::vector<int64_t>{}), value, need_reorder, dtype},
                python_line());
          },
          "init"_a = none, "shape"_a = none, "value"_a = 0.0, "need_reorder"_a = false,
          "dtype"_a = "float32")
      .def(
          "update_memory",
          [](DynamicRNN& rnn, Var& ex_mem, Var& new_mem) {
            rnn.update_memory(ex_mem, new_mem, python_line());
          },
          "ex_mem"_a, "new_mem"_a)
      .def("output",
           [](DynamicRNN& rnn, const py::args& outputs) {
             rnn.output(outputs.cast<Vars>(), python_line());
           })
      .def("__call__", [](DynamicRNN& rnn) { return one_or_list(rnn(python_line())); });
}

}  // namespace

void bind_layers_step_rnn(py::module_& m) {
  bind_static_rnn(m);
  bind_dynamic_rnn(m);
}

}  // namespace trireme::binding
