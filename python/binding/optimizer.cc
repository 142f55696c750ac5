// Optimizers: layers/optimizer.h.
#include "layers/optimizer.h"

#include <pybind11/functional.h>

#include "python/binding/optimizer_arguments.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;
namespace opt = optimizer;

template <class T>
using Bound = py::class_<T, Optimizer, std::shared_ptr<T>>;

void bind_base(py::module_& m) {
  const py::object none = py::none();
  py::class_<Optimizer, std::shared_ptr<Optimizer>>(m, "Optimizer", py::dynamic_attr())
      .def(
          "minimize",
          [](Optimizer& self, Var& loss, const py::object& startup, const py::object& params,
             const py::object& no_grad) {
            const Minimized made =
                self.minimize(loss, minimize_options(startup, params, no_grad), python_line());
            return py::make_tuple(made.ops, made.params_grads);
          },
          "loss"_a, "startup_program"_a = none, "parameter_list"_a = none, "no_grad_set"_a = none)
      .def(
          "backward",
          [](Optimizer& self, Var& loss, const py::object& startup, const py::object& params,
             const py::object& no_grad, const py::object& callbacks) {
            MinimizeOptions options = minimize_options(startup, params, no_grad);
            if (!callbacks.is_none()) {
              for (const auto& call :
                   callbacks.cast<std::vector<std::function<void(Block*, Op*)>>>()) {
                options.callbacks.push_back([call](Block& block, Op& op) { call(&block, &op); });
              }
            }
            return self.backward(loss, options, python_line());
          },
          "loss"_a, "startup_program"_a = none, "parameter_list"_a = none, "no_grad_set"_a = none,
          "callbacks"_a = none)
      .def(
          "apply_gradients",
          [](Optimizer& self, const ParamGrads& params_grads) {
            return self.apply_gradients(params_grads, python_line());
          },
          "params_grads"_a)
      .def(
          "apply_optimize",
          [](Optimizer& self, Var& loss, std::shared_ptr<Program> startup,
             const ParamGrads& params_grads) {
            return self.apply_optimize(loss, startup, params_grads, python_line());
          },
          "loss"_a, "startup_program"_a, "params_grads"_a)
      .def("get_opti_var_name_list", &Optimizer::get_opti_var_name_list)
      .def_property_readonly("type", &Optimizer::type)
      .def_property_readonly("_name", &Optimizer::name)
      .def_property_readonly("_learning_rate",
                             [](const Optimizer& self) -> py::object {
                               if (Var* var = self.learning_rate().var()) return py::cast(var);
                               return py::float_(self.learning_rate().value());
                             })
      .def(
          "_global_learning_rate",
          [](const Optimizer& self, const Program* program) {
            return self.learning_rate_var(program);
          },
          "program"_a = none);
}

void bind_basic(py::module_& m) {
  const py::object none = py::none();
  Bound<opt::Sgd>(m, "SGDOptimizer")
      .def(py::init([](const Hyper& rate, const py::object& params, const py::object& decay,
                       const py::object& clip, const Text& name, bool scheduled) {
             return std::make_shared<opt::Sgd>(rate, common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a, "parameter_list"_a = none, "regularization"_a = none,
           "grad_clip"_a = none, "name"_a = none, "_scheduled"_a = false);
  Bound<opt::Momentum>(m, "MomentumOptimizer")
      .def(py::init([](const Hyper& rate, double momentum, const py::object& params,
                       bool use_nesterov, const py::object& decay, const py::object& clip,
                       const Text& name, bool scheduled) {
             return std::make_shared<opt::Momentum>(rate, momentum, use_nesterov,
                                                    common(params, decay, clip, name, scheduled));
           }),
           "learning_rate"_a, "momentum"_a, "parameter_list"_a = none, "use_nesterov"_a = false,
           "regularization"_a = none, "grad_clip"_a = none, "name"_a = none,
           "_scheduled"_a = false);
  Bound<opt::LarsMomentum>(m, "LarsMomentumOptimizer")
      .def(py::init([](const Hyper& rate, double momentum, double lars_coeff,
                       double lars_weight_decay, const py::object& params, const py::object& decay,
                       const py::object& clip, const Text& name) {
             return std::make_shared<opt::LarsMomentum>(
                 rate, momentum, opt::LarsOptions{lars_coeff, lars_weight_decay},
                 common(params, decay, clip, name, false));
           }),
           "learning_rate"_a, "momentum"_a, "lars_coeff"_a = 0.001, "lars_weight_decay"_a = 0.0005,
           "parameter_list"_a = none, "regularization"_a = none, "grad_clip"_a = none,
           "name"_a = none);
  Bound<opt::Dpsgd>(m, "DpsgdOptimizer")
      .def(py::init([](const Hyper& rate, double clip, double batch_size, double sigma,
                       const py::object& params) {
             return std::make_shared<opt::Dpsgd>(
                 rate, opt::DpsgdOptions{clip, batch_size, sigma},
                 common(params, py::none(), py::none(), Text(), false));
           }),
           "learning_rate"_a = 0.001, "clip"_a = 0.9, "batch_size"_a = 0.999, "sigma"_a = 1e-8,
           "parameter_list"_a = none);
  Bound<opt::Ftrl>(m, "FtrlOptimizer")
      .def(py::init([](const Hyper& rate, double l1, double l2, double lr_power,
                       const py::object& params, const py::object& decay, const py::object& clip,
                       const Text& name) {
             return std::make_shared<opt::Ftrl>(rate, opt::FtrlOptions{l1, l2, lr_power},
                                                common(params, decay, clip, name, false));
           }),
           "learning_rate"_a, "l1"_a = 0.0, "l2"_a = 0.0, "lr_power"_a = -0.5,
           "parameter_list"_a = none, "regularization"_a = none, "grad_clip"_a = none,
           "name"_a = none);
}

}  // namespace

void bind_optimizers(py::module_& m) {
  bind_base(m);
  bind_basic(m);
}

}  // namespace trireme::binding
