// Optimizers that adapt the rate of each element, and the arguments all optimizers share.
#include <pybind11/functional.h>

#include "core/text.h"
#include "layers/optimizer.h"
#include "python/binding/optimizer_arguments.h"

namespace trireme::binding {

using namespace pybind11::literals;
namespace opt = optimizer;

std::vector<std::string> names_from_python(const py::object& list, const char* argument) {
  std::vector<std::string> names;
  if (list.is_none()) return names;
  if (!is_sequence(list) && !PyAnySet_Check(list.ptr())) {
    throw Error(ErrorKind::type_mismatch,
                cat(argument, " is a ", Py_TYPE(list.ptr())->tp_name, "; it must be a list"));
  }
  for (py::handle item : list) {
    if (py::isinstance<Var>(item)) {
      names.push_back(item.cast<Var&>().name());
    } else if (py::isinstance<py::str>(item)) {
      names.push_back(item.cast<std::string>());
    } else {
      throw Error(ErrorKind::type_mismatch,
                  cat(argument, " holds a ", Py_TYPE(item.ptr())->tp_name))
          .fix("list Variables or their names");
    }
  }
  return names;
}

OptimizerOptions common(const py::object& parameter_list, const py::object& regularization,
                        const py::object& grad_clip, const Text& name, bool scheduled) {
  return {names_from_python(parameter_list, "parameter_list"), kept<Regularizer>(regularization),
          kept<GradientClip>(grad_clip), name, scheduled};
}

MinimizeOptions minimize_options(const py::object& startup, const py::object& parameter_list,
                                 const py::object& no_grad_set) {
  MinimizeOptions options;
  if (!startup.is_none()) options.startup = startup.cast<std::shared_ptr<Program>>();
  options.parameter_list = names_from_python(parameter_list, "parameter_list");
  for (std::string& name : names_from_python(no_grad_set, "no_grad_set")) {
    options.no_grad_set.insert(std::move(name));
  }
  return options;
}

namespace {

// A Python function on parameters; empty for None.
std::function<bool(const Var&)> asked_of(const py::object& function) {
  if (function.is_none()) return {};
  return [ask = function.cast<std::function<bool(Var*)>>()](const Var& var) {
    return ask(const_cast<Var*>(&var));
  };
}

template <class T>
using Bound = py::class_<T, Optimizer, std::shared_ptr<T>>;

void bind_adagrads(py::module_& m) {
  const py::object none = py::none();
  Bound<opt::Adagrad>(m, "AdagradOptimizer")
      .def(py::init([](const Hyper& rate, double epsilon, const py::object& params,
                       const py::object& decay, const py::object& clip, const Text& name,
                       double initial, bool scheduled) {
             return std::make_shared<opt::Adagrad>(rate, epsilon, initial,
                                                   common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a, "epsilon"_a = 1e-6, "parameter_list"_a = none,
           "regularization"_a = none, "grad_clip"_a = none, "name"_a = none,
           "initial_accumulator_value"_a = 0.0, "_scheduled"_a = false);
  Bound<opt::DecayedAdagrad>(m, "DecayedAdagradOptimizer")
      .def(py::init([](const Hyper& rate, double decay_rate, double epsilon,
                       const py::object& params, const py::object& decay, const py::object& clip,
                       const Text& name) {
             return std::make_shared<opt::DecayedAdagrad>(rate, decay_rate, epsilon,
                                                          common(params, decay, clip, name, false));
           }),
           "learning_rate"_a, "decay"_a = 0.95, "epsilon"_a = 1e-6, "parameter_list"_a = none,
           "regularization"_a = none, "grad_clip"_a = none, "name"_a = none);
  Bound<opt::Adadelta>(m, "AdadeltaOptimizer")
      .def(py::init([](const Hyper& rate, double epsilon, double rho, const py::object& params,
                       const py::object& decay, const py::object& clip, const Text& name,
                       bool scheduled) {
             return std::make_shared<opt::Adadelta>(rate, epsilon, rho,
                                                    common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a, "epsilon"_a = 1e-6, "rho"_a = 0.95, "parameter_list"_a = none,
           "regularization"_a = none, "grad_clip"_a = none, "name"_a = none,
           "_scheduled"_a = false);
  Bound<opt::RmsProp>(m, "RMSPropOptimizer")
      .def(py::init([](const Hyper& rate, double rho, double epsilon, double momentum,
                       bool centered, const py::object& params, const py::object& decay,
                       const py::object& clip, const Text& name, bool scheduled) {
             return std::make_shared<opt::RmsProp>(
                 rate, opt::RmsPropOptions{rho, epsilon, momentum, centered},
                 common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a, "rho"_a = 0.95, "epsilon"_a = 1e-6, "momentum"_a = 0.0,
           "centered"_a = false, "parameter_list"_a = none, "regularization"_a = none,
           "grad_clip"_a = none, "name"_a = none, "_scheduled"_a = false);
}

}  // namespace

void bind_adaptive_optimizers(py::module_& m) {
  const py::object none = py::none();
  bind_adagrads(m);
  Bound<opt::Adam>(m, "AdamOptimizer")
      .def(py::init([](const Hyper& rate, const Hyper& beta1, const Hyper& beta2, double epsilon,
                       const py::object& params, const py::object& decay, const py::object& clip,
                       const Text& name, bool lazy_mode, bool scheduled, bool corrects_epsilon,
                       double decoupled_decay, const py::object& decays) {
             opt::AdamOptions adam = {
                 beta1,           beta2,           epsilon, lazy_mode, corrects_epsilon,
                 decoupled_decay, asked_of(decays)};
             return std::make_shared<opt::Adam>(rate, std::move(adam),
                                                common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a = 0.001, "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8,
           "parameter_list"_a = none, "regularization"_a = none, "grad_clip"_a = none,
           "name"_a = none, "lazy_mode"_a = false, "_scheduled"_a = false,
           "_corrects_epsilon"_a = false, "_decoupled_decay"_a = 0.0, "_decays"_a = none);
  Bound<opt::Adamax>(m, "AdamaxOptimizer")
      .def(py::init([](const Hyper& rate, double beta1, double beta2, double epsilon,
                       const py::object& params, const py::object& decay, const py::object& clip,
                       const Text& name, bool scheduled) {
             return std::make_shared<opt::Adamax>(rate, opt::AdamaxOptions{beta1, beta2, epsilon},
                                                  common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a = 0.001, "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8,
           "parameter_list"_a = none, "regularization"_a = none, "grad_clip"_a = none,
           "name"_a = none, "_scheduled"_a = false);
  Bound<opt::Lamb>(m, "LambOptimizer")
      .def(py::init([](const Hyper& rate, double weight_decay, double beta1, double beta2,
                       double epsilon, const py::object& params, const py::object& decay,
                       const py::object& clip, const py::object& exclude, const Text& name,
                       bool scheduled) {
             opt::LambOptions options = {weight_decay, beta1, beta2, epsilon, asked_of(exclude)};
             return std::make_shared<opt::Lamb>(rate, std::move(options),
                                                common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a = 0.001, "lamb_weight_decay"_a = 0.01, "beta1"_a = 0.9,
           "beta2"_a = 0.999, "epsilon"_a = 1e-6, "parameter_list"_a = none,
           "regularization"_a = none, "grad_clip"_a = none, "exclude_from_weight_decay_fn"_a = none,
           "name"_a = none, "_scheduled"_a = false);
}

}  // namespace trireme::binding
