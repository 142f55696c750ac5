// Operator: an op of a block.
#include "core/text.h"
#include "ir/schema.h"
#include "python/binding/binding.h"

namespace trireme::binding {
namespace {

std::vector<std::string> slots_of(const Slots& slots) {
  std::vector<std::string> names;
  for (const auto& [slot, vars] : slots) names.push_back(slot);
  return names;
}

const Attribute& attribute_of(const Op& op, const std::string& name) {
  if (const Attribute* value = op.find_attr(name)) return *value;
  throw Error(ErrorKind::not_found, cat("op ", op.type(), " has no attribute ", name));
}

py::dict attrs_of(const Op& op) {
  py::dict attrs;
  for (const auto& [name, value] : op.attrs()) {
    attrs[py::str(name)] = attribute_to_python(value, program_of(op));
  }
  return attrs;
}

std::vector<std::string> attr_names(const Op& op) {
  std::vector<std::string> names;
  for (const auto& [name, value] : op.attrs()) names.push_back(name);
  return names;
}

void copy_op(Op& op, const Op& source) {
  while (!op.inputs().empty()) op.remove_input(std::string(op.inputs().begin()->first));
  while (!op.outputs().empty()) op.remove_output(std::string(op.outputs().begin()->first));
  while (!op.attrs().empty()) op.remove_attr(std::string(op.attrs().begin()->first));
  op.set_type(source.type());
  for (const auto& [slot, names] : source.inputs()) op.set_input(slot, names);
  for (const auto& [slot, names] : source.outputs()) op.set_output(slot, names);
  for (const auto& [name, value] : source.attrs()) op.set_attr(name, value);
}

// Attributes that are not set get the values that the row says; wrong ones are an Error.
void fill_attributes(Op& op) {
  OpSpec spec = op.spec();
  check_and_fill(op_table().get(op.type()), spec);
  for (const auto& [name, value] : spec.attrs) op.set_attr(name, value);
}

}  // namespace

void bind_ops(py::module_& m) {
  py::class_<Op, InProgram<Op>>(m, "Operator", py::dynamic_attr())
      .def_property_readonly("type", &Op::type)
      .def_property_readonly("block", [](const Op& op) { return &op.block(); })
      .def_property_readonly("idx", &Op::index)
      .def(
          "input", [](const Op& op, const std::string& slot) { return op.input(slot); },
          py::arg("name"))
      .def(
          "output", [](const Op& op, const std::string& slot) { return op.output(slot); },
          py::arg("name"))
      .def_property_readonly("input_names", [](const Op& op) { return slots_of(op.inputs()); })
      .def_property_readonly("output_names", [](const Op& op) { return slots_of(op.outputs()); })
      .def_property_readonly("input_arg_names", &Op::input_names)
      .def_property_readonly("output_arg_names", &Op::output_names)
      .def_property_readonly("attr_names", &attr_names)
      .def(
          "has_attr", [](const Op& op, const std::string& name) { return op.has_attr(name); },
          py::arg("name"))
      .def(
          "attr",
          [](const Op& op, const std::string& name) {
            return attribute_to_python(attribute_of(op, name), program_of(op));
          },
          py::arg("name"))
      .def(
          "attr_type",
          [](const Op& op, const std::string& name) {
            return static_cast<int>(type_of(attribute_of(op, name)));
          },
          py::arg("name"))
      .def("all_attrs", &attrs_of)
      .def(
          "_set_attr",
          [](Op& op, const std::string& name, const py::object& value) {
            op.set_attr(name, attribute_from_python(value, op.type(), name));
          },
          py::arg("name"), py::arg("val"))
      .def("_remove_attr", [](Op& op, const std::string& name) { op.remove_attr(name); })
      .def("_set_type", &Op::set_type)
      .def("_copy_from", &copy_op)
      .def("_infer", [](Op& op) { infer_op(op); })
      .def("_fill_attrs", &fill_attributes)
      .def("_set_input", &Op::set_input)
      .def("_set_output", &Op::set_output)
      .def("_remove_input", &Op::remove_input)
      .def("_remove_output", &Op::remove_output)
      .def("_rename_input", &Op::rename_input, py::arg("old_name"), py::arg("new_name"))
      .def("_rename_output", &Op::rename_output, py::arg("old_name"), py::arg("new_name"))
      .def_readwrite("_is_target", &Op::is_target)
      .def_property_readonly("_user_line",
                             [](const Op& op) {
                               const SourceLine& line = op.line();
                               return py::make_tuple(line.file, line.line, line.function,
                                                     line.text);
                             })
      .def("_text", [](const Op& op) { return to_text(op); })
      .def("_proto_text", [](const Op& op) { return to_proto_text(op); });
}

}  // namespace trireme::binding
