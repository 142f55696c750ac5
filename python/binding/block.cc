// Block: variables by name and ops in order.
#include "core/text.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

struct Asked {
  Text name;
  std::optional<std::vector<int64_t>> shape;
  std::optional<DType> dtype;
  std::optional<VarType> type;
  std::optional<int> lod_level;
  std::optional<bool> persistable;
};

// What the caller leaves out is taken from the variable of that name, if there is one.
VarSpec spec_for(const Block& block, const Asked& asked) {
  const Var* held = asked.name.empty() ? nullptr : block.find_var(asked.name);
  VarSpec spec;
  if (held) spec = held->spec();
  spec.name = asked.name;
  spec.has_shape = asked.shape.has_value();
  if (asked.shape) spec.shape = Shape(std::span<const int64_t>(*asked.shape));
  if (asked.dtype) spec.dtype = *asked.dtype;
  if (asked.type) spec.type = *asked.type;
  if (asked.lod_level) spec.lod_level = *asked.lod_level;
  if (asked.persistable) spec.persistable = *asked.persistable;
  return spec;
}

Var* create_var(Block& block, const Asked& asked, bool stop_gradient, bool is_data,
                bool need_check_feed) {
  const bool is_new = asked.name.empty() || !block.find_var(asked.name);
  VarSpec spec = spec_for(block, asked);
  if (is_new) {
    spec.stop_gradient = stop_gradient;
    spec.is_data = is_data;
    spec.need_check_feed = need_check_feed;
  }
  return &block.create_var(std::move(spec));
}

OpSpec op_spec(const std::string& type, const py::object& inputs, const py::object& outputs,
               const py::object& attrs) {
  const auto dict = [](const py::object& given) {
    return given.is_none() ? py::dict() : given.cast<py::dict>();
  };
  return {type, slots_from_python(dict(inputs), "input"),
          slots_from_python(dict(outputs), "output"), attrs_from_python(type, dict(attrs))};
}

}  // namespace

void bind_blocks(py::module_& m) {
  const py::object none = py::none();
  py::class_<Block, InProgram<Block>>(m, "Block", py::dynamic_attr())
      .def_property_readonly("program",
                             [](const Block& b) { return b.program().shared_from_this(); })
      .def_property_readonly("idx", &Block::index)
      .def_property_readonly("id", &Block::index)
      .def_property_readonly("parent_idx", &Block::parent_index)
      .def_property_readonly("forward_block_idx", &Block::forward_index)
      .def("_set_forward_block_idx", &Block::set_forward_index)
      .def_property_readonly("ops", &Block::ops)
      .def("_op_size", &Block::size)
      .def("_op_at", [](const Block& b, size_t i) { return &b.op(i); })
      .def("_var_list", &Block::vars)
      .def("_find_var", [](const Block& b, const std::string& name) { return b.find_var(name); })
      .def("_find_var_recursive",
           [](const Block& b, const std::string& name) { return b.find_var_recursive(name); })
      .def(
          "_create_var",
          [](Block& b, Text name, std::optional<std::vector<int64_t>> shape,
             std::optional<DType> dtype, std::optional<VarType> type, std::optional<int> lod_level,
             std::optional<bool> persistable, bool stop_gradient, bool is_data,
             bool need_check_feed) {
            return create_var(b, {name, shape, dtype, type, lod_level, persistable}, stop_gradient,
                              is_data, need_check_feed);
          },
          py::arg("name") = none, py::arg("shape") = none, py::arg("dtype") = none,
          py::arg("type") = none, py::arg("lod_level") = none, py::arg("persistable") = none,
          py::arg("stop_gradient") = false, py::arg("is_data") = false,
          py::arg("need_check_feed") = false)
      .def(
          "_create_parameter",
          [](Block& b, const std::string& name, const std::vector<int64_t>& shape, DType dtype,
             bool trainable, float learning_rate, bool do_model_average, bool need_clip,
             bool stop_gradient) {
            ParameterInfo info;
            info.trainable = trainable;
            info.learning_rate = learning_rate;
            info.do_model_average = do_model_average;
            info.need_clip = need_clip;
            VarSpec spec;
            spec.name = name;
            spec.dtype = dtype;
            spec.shape = Shape(std::span<const int64_t>(shape));
            spec.stop_gradient = stop_gradient;
            return &b.create_parameter(std::move(spec), std::move(info));
          },
          py::arg("name"), py::arg("shape"), py::arg("dtype"), py::arg("trainable") = true,
          py::arg("learning_rate") = 1.0f, py::arg("do_model_average") = true,
          py::arg("need_clip") = true, py::arg("stop_gradient") = false)
      .def(
          "append_op",
          [](Block& b, const std::string& type, const py::object& inputs, const py::object& outputs,
             const py::object& attrs) {
            return &b.append_op(op_spec(type, inputs, outputs, attrs), python_line());
          },
          py::arg("type"), py::arg("inputs") = none, py::arg("outputs") = none,
          py::arg("attrs") = none)
      .def(
          "_prepend_op",
          [](Block& b, const std::string& type, const py::object& inputs, const py::object& outputs,
             const py::object& attrs) {
            return &b.prepend_op(op_spec(type, inputs, outputs, attrs), python_line());
          },
          py::arg("type"), py::arg("inputs") = none, py::arg("outputs") = none,
          py::arg("attrs") = none)
      .def(
          "_insert_op",
          [](Block& b, size_t index, const std::string& type, const py::object& inputs,
             const py::object& outputs, const py::object& attrs) {
            return &b.insert_op(index, op_spec(type, inputs, outputs, attrs), python_line());
          },
          py::arg("index"), py::arg("type"), py::arg("inputs") = none, py::arg("outputs") = none,
          py::arg("attrs") = none)
      .def("_insert_raw_op",  // nothing is filled, checked or inferred
           [](Block& b, size_t index, const std::string& type) {
             return &b.insert_raw_op(index, {.type = type}, python_line());
           })
      .def(
          "_remove_op", [](Block& b, size_t index, bool) { b.remove_ops(index, index + 1); },
          py::arg("index"), py::arg("sync") = true)
      .def("_remove_ops", &Block::remove_ops)
      .def(
          "_remove_var", [](Block& b, const std::string& name, bool) { b.remove_var(name); },
          py::arg("name"), py::arg("sync") = true)
      .def(
          "_rename_var",
          [](Block& b, const std::string& from, const std::string& to) {
            b.rename_var(from, to);
            return b.find_var(to);
          },
          py::arg("name"), py::arg("new_name"))
      .def("_text", [](const Block& b) { return to_text(b); })
      .def("_proto_text", [](const Block& b) { return to_proto_text(b); });
}

}  // namespace trireme::binding
