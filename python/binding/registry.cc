// The op table for Python: what each op takes and gives, from which forwarding layers are made.
#include "ir/schema.h"
#include "python/binding/binding.h"

namespace trireme::binding {
namespace {

py::dict describe(const OpSchema& row) {
  const auto slots = [](const std::vector<SlotSpec>& specs) {
    py::list list;
    for (const SlotSpec& slot : specs) {
      list.append(py::dict(py::arg("name") = slot.name, py::arg("doc") = slot.doc,
                           py::arg("duplicable") = slot.duplicable,
                           py::arg("dispensable") = slot.dispensable,
                           py::arg("intermediate") = slot.intermediate));
    }
    return list;
  };
  py::list attrs;
  const std::shared_ptr<Program> nowhere = Program::create();
  for (const AttrSpec& attr : row.attributes()) {
    const py::object fallback =
        attr.fallback ? attribute_to_python(*attr.fallback, *nowhere) : py::none();
    attrs.append(py::dict(py::arg("name") = attr.name, py::arg("doc") = attr.doc,
                          py::arg("type") = std::string(name_of(attr.type)),
                          py::arg("required") = !attr.fallback.has_value(),
                          py::arg("default") = fallback));
  }
  return py::dict(
      py::arg("type") = row.type(), py::arg("doc") = row.documentation(),
      py::arg("inputs") = slots(row.inputs()), py::arg("outputs") = slots(row.outputs()),
      py::arg("attrs") = attrs, py::arg("differentiable") = row.differentiable(),
      py::arg("is_grad") = row.is_gradient(), py::arg("cannot_run") = row.trait().cannot_run);
}

}  // namespace

void bind_registry(py::module_& m) {
  m.def("op_types", [] {
    std::vector<std::string> types;
    for (const OpSchema* row : op_table().rows()) {
      if (!row->trait().primitive) types.push_back(row->type());
    }
    return types;
  });
  m.def("has_op", [](const std::string& type) {
    const OpSchema* row = op_table().find(type);
    return row && !row->trait().primitive;
  });
  // The gradient ops of one op, as its row makes them, at the end of `into`; `no_grad` has
  // gradients' names.
  m.def("make_grad_ops", [](const Op& op, const std::set<std::string>& no_grad, Block& into) {
    const OpSchema& row = op_table().get(op.type());
    if (!row.differentiable()) throw Error(cat("op ", op.type(), " has no gradient"));
    const auto wanted = [&](const std::string& name) { return !no_grad.contains(grad_name(name)); };
    GradMaker maker(op, wanted);
    std::vector<const Op*> made;
    for (OpSpec& spec : row.make_grad(maker)) {
      made.push_back(&into.insert_raw_op(into.size(), std::move(spec)));
    }
    return made;
  });
  m.def("op_row", [](const std::string& type) { return describe(op_table().get(type)); });
}

}  // namespace trireme::binding
