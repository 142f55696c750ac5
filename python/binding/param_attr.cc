// ParamAttr, and what else a layer's param_attr and bias_attr may be.
#include "layers/param_attr.h"

#include "core/text.h"
#include "layers/initializer.h"
#include "layers/regularizer.h"
#include "python/binding/casters.h"
#include "python/binding/kept.h"

namespace trireme::binding {
namespace {

ParamAttr make(const py::object& name, const py::object& initializer, float learning_rate,
               const py::object& regularizer, bool trainable, bool do_model_average,
               bool need_clip) {
  ParamAttr attr;
  if (!name.is_none()) {
    attr.name = name.cast<std::string>();
    if (attr.name.empty())
      throw Error("the name of a ParamAttr is empty").fix("leave it out, or None");
  }
  attr.initializer = kept<Initializer>(initializer);
  attr.learning_rate = learning_rate;
  attr.regularizer = kept<Regularizer>(regularizer);
  attr.trainable = trainable;
  attr.do_model_average = do_model_average;
  attr.need_clip = need_clip;
  return attr;
}

}  // namespace

ParamArg param_arg_from_python(py::handle value) {
  if (value.is_none()) return ParamArg();
  if (PyBool_Check(value.ptr())) return ParamArg(value.ptr() == Py_True);
  if (py::isinstance<py::str>(value)) return ParamArg(value.cast<std::string>());
  if (py::isinstance<ParamAttr>(value)) return ParamArg(value.cast<ParamAttr&>());
  if (py::isinstance<Initializer>(value)) return ParamArg(kept<Initializer>(value));
  if (py::isinstance<Regularizer>(value)) return ParamArg(kept<Regularizer>(value));
  throw Error(ErrorKind::type_mismatch,
              cat("an attribute of a parameter is a ", Py_TYPE(value.ptr())->tp_name))
      .fix("pass a ParamAttr, a name, an Initializer, a regularizer, or False for no parameter");
}

void bind_param_attrs(py::module_& m) {
  const py::object none = py::none();
  py::class_<ParamAttr>(m, "ParamAttr", py::dynamic_attr())
      .def(py::init(&make), py::arg("name") = none, py::arg("initializer") = none,
           py::arg("learning_rate") = 1.0f, py::arg("regularizer") = none,
           py::arg("trainable") = true, py::arg("do_model_average") = true,
           py::arg("need_clip") = true)
      .def_property(
          "name",
          [](const ParamAttr& a) -> std::optional<std::string> {
            if (a.name.empty()) return std::nullopt;
            return a.name;
          },
          [](ParamAttr& a, const Text& name) { a.name = name; })
      .def_property(
          "initializer", [](const ParamAttr& a) { return a.initializer; },
          [](ParamAttr& a, const py::object& value) { a.initializer = kept<Initializer>(value); })
      .def_property(
          "regularizer", [](const ParamAttr& a) { return a.regularizer; },
          [](ParamAttr& a, const py::object& value) { a.regularizer = kept<Regularizer>(value); })
      .def_readwrite("learning_rate", &ParamAttr::learning_rate)
      .def_readwrite("trainable", &ParamAttr::trainable)
      .def_readwrite("do_model_average", &ParamAttr::do_model_average)
      .def_readwrite("need_clip", &ParamAttr::need_clip)
      .def_readwrite("_weight_norm", &ParamAttr::weight_norm)
      .def_readwrite("dim", &ParamAttr::norm_dim)
      .def("__copy__", [](const ParamAttr& a) { return ParamAttr(a); })
      .def("__deepcopy__", [](const ParamAttr& a, const py::dict&) { return ParamAttr(a); });
}

}  // namespace trireme::binding
