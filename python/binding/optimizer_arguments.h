// The arguments that all optimizers take, as Python gives them.
#pragma once

#include "layers/optimizer.h"
#include "python/binding/casters.h"
#include "python/binding/kept.h"

namespace trireme::binding {

// Variables or their names.
std::vector<std::string> names_from_python(const py::object& list, const char* argument);

OptimizerOptions common(const py::object& parameter_list, const py::object& regularization,
                        const py::object& grad_clip, const Text& name, bool scheduled);
MinimizeOptions minimize_options(const py::object& startup, const py::object& parameter_list,
                                 const py::object& no_grad_set);

}  // namespace trireme::binding

namespace pybind11::detail {

template <>
struct type_caster<trireme::Hyper> {
 public:
  bool load(handle source, bool convert) {
    make_caster<trireme::Var> var;
    if (!source.is_none() && var.load(source, convert)) {
      value_.emplace(cast_op<trireme::Var&>(var));
      return true;
    }
    make_caster<double> number;
    if (!number.load(source, convert)) return false;
    value_.emplace(cast_op<double>(number));
    return true;
  }
  static constexpr auto name = const_name("Union[float, Variable]");
  template <class>
  using cast_op_type = const trireme::Hyper&;
  operator const trireme::Hyper&() const { return *value_; }

 private:
  std::optional<trireme::Hyper> value_;
};

}  // namespace pybind11::detail
