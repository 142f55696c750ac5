// The arguments that all optimizers take, as Python gives them.
#pragma once

#include "layers/optimizer.h"
#include "python/binding/casters.h"
#include "python/binding/kept.h"
#include "python/binding/number_or_var.h"

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
struct type_caster<trireme::Hyper> : number_or_var_caster<trireme::Hyper> {};

}  // namespace pybind11::detail
