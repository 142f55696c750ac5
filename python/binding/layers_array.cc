// Tensor arrays, and sequences cut into time steps: layers/array.h.
#include "layers/array.h"

#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;

void bind_arrays(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "create_array", [](DType dtype) { return &layers::create_array(dtype, python_line()); },
      "dtype"_a);
  m.def(
      "array_write",
      [](Var& x, Var& i, Var* array) { return &layers::array_write(x, i, array, python_line()); },
      "x"_a, "i"_a, "array"_a = none);
  m.def(
      "array_read", [](Var& array, Var& i) { return &layers::array_read(array, i, python_line()); },
      "array"_a, "i"_a);
  m.def(
      "array_length", [](Var& array) { return &layers::array_length(array, python_line()); },
      "array"_a);
  m.def(
      "tensor_array_to_tensor",
      [](Var& input, int axis, const Text& name, bool use_stack) {
        return layers::tensor_array_to_tensor(input, axis, use_stack, name, python_line());
      },
      "input"_a, "axis"_a = 1, "name"_a = none, "use_stack"_a = false);
}

void bind_time_steps(py::module_& m) {
  m.def(
      "lod_rank_table",
      [](Var& x, int level) { return &layers::lod_rank_table(x, level, python_line()); }, "x"_a,
      "level"_a = 0);
  m.def(
      "max_sequence_len",
      [](Var& rank_table) { return &layers::max_sequence_len(rank_table, python_line()); },
      "rank_table"_a);
  m.def(
      "lod_tensor_to_array",
      [](Var& x, Var& table) { return &layers::lod_tensor_to_array(x, table, python_line()); },
      "x"_a, "table"_a);
  m.def(
      "array_to_lod_tensor",
      [](Var& x, Var& table) { return &layers::array_to_lod_tensor(x, table, python_line()); },
      "x"_a, "table"_a);
  m.def(
      "reorder_lod_tensor_by_rank",
      [](Var& x, Var& rank_table) {
        return &layers::reorder_lod_tensor_by_rank(x, rank_table, python_line());
      },
      "x"_a, "rank_table"_a);
  m.def(
      "shrink_memory",
      [](Var& x, Var& i, Var& table) { return &layers::shrink_memory(x, i, table, python_line()); },
      "x"_a, "i"_a, "table"_a);
  m.def(
      "split_lod_tensor",
      [](Var& input, Var& mask, int level) {
        return layers::split_lod_tensor(input, mask, level, python_line());
      },
      "input"_a, "mask"_a, "level"_a = 0);
  m.def(
      "merge_lod_tensor",
      [](Var& in_true, Var& in_false, Var& x, Var& mask, int level) {
        return &layers::merge_lod_tensor(in_true, in_false, x, mask, level, python_line());
      },
      "in_true"_a, "in_false"_a, "x"_a, "mask"_a, "level"_a = 0);
}

}  // namespace

void bind_layers_array(py::module_& m) {
  bind_arrays(m);
  bind_time_steps(m);
}

}  // namespace trireme::binding
