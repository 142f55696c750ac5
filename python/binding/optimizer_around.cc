// Averages of parameters, and optimizers around optimizers.
#include "layers/optimizer_average.h"
#include "layers/optimizer_pipeline.h"
#include "layers/optimizer_wrapper.h"
#include "python/binding/optimizer_arguments.h"

namespace trireme::binding {

using namespace pybind11::literals;
namespace opt = optimizer;

namespace {

std::vector<std::vector<Var*>> cuts_from_python(const py::object& list) {
  const auto refused = [](const std::string& what) {
    return Error(ErrorKind::type_mismatch, what)
        .at(python_line())
        .fix("give a list of lists of Variables, the last [loss]");
  };
  std::vector<std::vector<Var*>> cuts;
  if (list.is_none()) return cuts;
  if (!is_sequence(list)) throw refused(cat("cut_list is ", described(list)));
  for (py::handle cut : list) {
    if (!is_sequence(cut)) throw refused(cat("cut_list holds ", described(cut)));
    cuts.emplace_back();
    for (py::handle var : cut) {
      if (!py::isinstance<Var>(var)) throw refused(cat("a cut holds ", described(var)));
      cuts.back().push_back(&var.cast<Var&>());
    }
  }
  return cuts;
}

template <class T>
std::vector<T> items_from_python(const py::object& list, const char* argument, const char* wanted) {
  std::vector<T> items;
  if (list.is_none()) return items;
  const auto refused = [&](const std::string& what) {
    return Error(ErrorKind::type_mismatch, what)
        .at(python_line())
        .fix(cat("give a list of ", wanted));
  };
  if (!is_sequence(list)) throw refused(cat(argument, " is ", described(list)));
  for (py::handle item : list) {
    try {
      items.push_back(item.cast<T>());
    } catch (const py::cast_error&) {
      throw refused(cat(argument, " holds ", described(item)));
    }
  }
  return items;
}

void bind_pipeline(py::module_& m) {
  const py::object none = py::none();
  py::class_<opt::PipelineSection>(m, "PipelineSection")
      .def_readonly("place", &opt::PipelineSection::place)
      .def_readonly("concurrency", &opt::PipelineSection::concurrency)
      .def_readonly("inputs", &opt::PipelineSection::inputs)
      .def_readonly("outputs", &opt::PipelineSection::outputs)
      .def_readonly("ops", &opt::PipelineSection::ops);
  py::class_<opt::Pipeline>(m, "PipelineOptimizer", py::dynamic_attr())
      .def(py::init([](const py::object& inner, const py::object& cuts, const py::object& places,
                       const py::object& concurrency, int queue_size, int sync_steps,
                       int start_cpu_core_id) {
             return std::make_unique<opt::Pipeline>(
                 kept<Optimizer>(inner),
                 opt::PipelineOptions{
                     cuts_from_python(cuts),
                     items_from_python<Place>(places, "place_list", "places, such as CPUPlace()"),
                     items_from_python<int>(concurrency, "concurrency_list", "whole numbers"),
                     queue_size, sync_steps, start_cpu_core_id},
                 python_line());
           }),
           "optimizer"_a, "cut_list"_a = none, "place_list"_a = none, "concurrency_list"_a = none,
           "queue_size"_a = 30, "sync_steps"_a = 1, "start_cpu_core_id"_a = 0)
      .def_property_readonly("sections", &opt::Pipeline::sections)
      .def(
          "minimize",
          [](opt::Pipeline& self, Var& loss, const py::object& startup, const py::object& params,
             const py::object& no_grad) {
            const Minimized made =
                self.minimize(loss, minimize_options(startup, params, no_grad), python_line());
            return py::make_tuple(made.ops, made.params_grads);
          },
          "loss"_a, "startup_program"_a = none, "parameter_list"_a = none, "no_grad_set"_a = none);
}

}  // namespace

void bind_optimizers_around(py::module_& m) {
  const py::object none = py::none();
  py::class_<opt::ModelAverage, Optimizer, std::shared_ptr<opt::ModelAverage>>(m, "ModelAverage")
      .def(py::init([](double rate, int64_t min_window, int64_t max_window,
                       const py::object& regularization, const Text& name) {
             return std::make_shared<opt::ModelAverage>(
                 rate,
                 opt::ModelAverageOptions{min_window, max_window, kept<Regularizer>(regularization),
                                          name},
                 python_line());
           }),
           "average_window_rate"_a, "min_average_window"_a = 10000, "max_average_window"_a = 10000,
           "regularization"_a = none, "name"_a = none)
      .def_property_readonly(
          "apply_program",
          [](opt::ModelAverage& a) { return a.apply_program().shared_from_this(); })
      .def_property_readonly("restore_program", [](opt::ModelAverage& a) {
        return a.restore_program().shared_from_this();
      });
  using Ema = opt::ExponentialMovingAverage;
  py::class_<Ema>(m, "ExponentialMovingAverage", py::dynamic_attr())
      .def(py::init([](double decay, Var* thres_steps, const Text& name) {
             return std::make_unique<Ema>(opt::EmaOptions{decay, thres_steps, name}, python_line());
           }),
           "decay"_a = 0.999, "thres_steps"_a = none, "name"_a = none)
      .def("update", [](Ema& a) { a.update(python_line()); })
      .def_property_readonly("apply_program",
                             [](Ema& a) { return a.apply_program().shared_from_this(); })
      .def_property_readonly("restore_program",
                             [](Ema& a) { return a.restore_program().shared_from_this(); });
  py::class_<opt::Recompute, Optimizer, std::shared_ptr<opt::Recompute>>(m, "RecomputeOptimizer")
      .def(py::init([](const py::object& inner) {
             return std::make_shared<opt::Recompute>(kept<Optimizer>(inner));
           }),
           "optimizer"_a)
      .def("_set_checkpoints", [](opt::Recompute& self, const py::object& checkpoints) {
        self.set_checkpoints(names_from_python(checkpoints, "checkpoints"));
      });
  py::class_<opt::Lookahead>(m, "LookaheadOptimizer", py::dynamic_attr())
      .def(py::init([](const py::object& inner, double alpha, int k) {
             return std::make_unique<opt::Lookahead>(kept<Optimizer>(inner), alpha, k);
           }),
           "inner_optimizer"_a, "alpha"_a = 0.5, "k"_a = 5)
      .def(
          "minimize",
          [](opt::Lookahead& self, Var& loss, std::shared_ptr<Program> startup) {
            const Minimized made = self.minimize(loss, startup, python_line());
            return py::make_tuple(made.ops, made.params_grads);
          },
          "loss"_a, "startup_program"_a = none);
  py::class_<opt::GradientMerge>(m, "GradientMergeOptimizer", py::dynamic_attr())
      .def(py::init([](const py::object& inner, int k_steps, bool average) {
             return std::make_unique<opt::GradientMerge>(kept<Optimizer>(inner), k_steps, average);
           }),
           "inner_optimizer"_a, "k_steps"_a = 1, "avg"_a = true)
      .def(
          "minimize",
          [](opt::GradientMerge& self, Var& loss, const py::object& startup,
             const py::object& params, const py::object& no_grad) {
            const Minimized made =
                self.minimize(loss, minimize_options(startup, params, no_grad), python_line());
            return py::make_tuple(made.ops, made.params_grads);
          },
          "loss"_a, "startup_program"_a = none, "parameter_list"_a = none, "no_grad_set"_a = none);
  bind_pipeline(m);
}

}  // namespace trireme::binding
