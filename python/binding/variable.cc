// Variable: a variable of a program. Parameters are variables that know more.
#include "core/text.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

const ParameterInfo& parameter_of(const Var& var, const char* attribute) {
  if (var.parameter()) return *var.parameter();
  throw py::attribute_error(
      cat("variable ", var.name(), " is no parameter and has no ", attribute));
}

py::tuple shape_of(const Var& var) { return py::tuple(py::cast(var.shape().to_vector())); }

// The last op of its block that writes it.
Op* writer_of(const Var& var) {
  const std::vector<Op*> ops = var.block().ops();
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    for (const auto& [slot, names] : (*op)->outputs()) {
      for (const std::string& name : names) {
        if (name == var.name()) return *op;
      }
    }
  }
  return nullptr;
}

void set_shape(Var& var, const std::vector<int64_t>& shape) {
  var.set_shape(Shape(std::span<const int64_t>(shape)));
}

template <class T>
auto edit(T ParameterInfo::*field, const char* name) {
  return [field, name](Var& var, T value) {
    parameter_of(var, name);
    var.edit_parameter().*field = std::move(value);
    program_of(var).touch();
  };
}
template <class T>
auto read(T ParameterInfo::*field, const char* name) {
  return [field, name](const Var& var) { return parameter_of(var, name).*field; };
}

}  // namespace

void bind_variables(py::module_& m) {
  py::class_<Var, InProgram<Var>> variable(m, "Variable", py::dynamic_attr());
  variable
      .def_property("name", &Var::name,
                    [](Var& v, const std::string& to) { v.block().rename_var(v.name(), to); })
      .def_property_readonly("shape", &shape_of)
      .def_property_readonly("dtype", &Var::dtype)
      .def_property_readonly("lod_level", &Var::lod_level)
      .def_property_readonly("type", &Var::type)
      .def_property("persistable", &Var::persistable, &Var::set_persistable)
      .def_property("stop_gradient", &Var::stop_gradient, &Var::set_stop_gradient)
      .def_property("is_data", &Var::is_data, &Var::set_is_data)
      .def_property("need_check_feed", &Var::need_check_feed, &Var::set_need_check_feed)
      .def_property_readonly("block", [](const Var& v) { return &v.block(); })
      .def_property_readonly("op", &writer_of)
      .def_property_readonly("is_parameter", &Var::is_parameter)
      .def_property_readonly("_has_shape", &Var::has_shape)
      .def("_describe", &Var::describe)
      .def("_set_shape", &set_shape)
      .def("_set_dtype", &Var::set_dtype)
      .def("_set_type", &Var::set_type)
      .def("_set_lod_level", &Var::set_lod_level)
      .def("_make_parameter", [](Var& v) { v.edit_parameter(); })
      .def("_drop_parameter", &Var::drop_parameter)
      .def("_text", [](const Var& v) { return to_text(v); })
      .def("_proto_text", [](const Var& v) { return to_proto_text(v); })
      .def_readwrite("_error_clip", &Var::error_clip);

  variable
      .def_property("trainable", read(&ParameterInfo::trainable, "trainable"),
                    [](Var& v, bool on) {
                      parameter_of(v, "trainable");
                      v.edit_parameter().trainable = on;
                      v.set_stop_gradient(!on);
                    })
      .def_property("_learning_rate", read(&ParameterInfo::learning_rate, "optimize_attr"),
                    edit(&ParameterInfo::learning_rate, "optimize_attr"))
      .def_property("_learning_rate_var", read(&ParameterInfo::learning_rate_var, "optimize_attr"),
                    edit(&ParameterInfo::learning_rate_var, "optimize_attr"))
      .def_property("do_model_average", read(&ParameterInfo::do_model_average, "do_model_average"),
                    edit(&ParameterInfo::do_model_average, "do_model_average"))
      .def_property("need_clip", read(&ParameterInfo::need_clip, "need_clip"),
                    edit(&ParameterInfo::need_clip, "need_clip"))
      .def_property("is_distributed", read(&ParameterInfo::is_distributed, "is_distributed"),
                    edit(&ParameterInfo::is_distributed, "is_distributed"));
  m.attr("Variable").attr("__hash__") =
      py::module_::import("builtins").attr("object").attr("__hash__");
}

}  // namespace trireme::binding
