// Learning rates computed by the program: layers/learning_rate_schedule.h.
#include "layers/learning_rate_schedule.h"

#include "python/binding/number_or_var.h"

namespace pybind11::detail {

template <>
struct type_caster<trireme::layers::LearningRate>
    : number_or_var_caster<trireme::layers::LearningRate> {};

}  // namespace pybind11::detail

namespace trireme::binding {

using namespace pybind11::literals;
using layers::LearningRate;

void bind_layers_schedule(py::module_& m) {
  m.def(
      "autoincreased_step_counter",
      [](const Text& counter_name, int begin, int step) {
        layers::StepCounterOptions options;
        if (!counter_name.empty()) options.counter_name = counter_name;
        options.begin = begin;
        options.step = step;
        return &layers::autoincreased_step_counter(options, python_line());
      },
      "counter_name"_a = py::none(), "begin"_a = 1, "step"_a = 1);
  m.def(
      "_decay_step_counter",
      [](int begin) { return &layers::decay_step_counter(begin, python_line()); }, "begin"_a = 0);
  m.def(
      "noam_decay",
      [](double d_model, double warmup_steps, const LearningRate& learning_rate) {
        return &layers::noam_decay(d_model, warmup_steps, learning_rate, python_line());
      },
      "d_model"_a, "warmup_steps"_a, "learning_rate"_a = 1.0);
  const auto def_decay = [&m](const char* name, auto decay) {
    m.def(
        name,
        [decay](const LearningRate& rate, double decay_steps, double decay_rate, bool staircase) {
          return &decay(rate, decay_steps, decay_rate, staircase, python_line());
        },
        "learning_rate"_a, "decay_steps"_a, "decay_rate"_a, "staircase"_a = false);
  };
  def_decay("exponential_decay", layers::exponential_decay);
  def_decay("natural_exp_decay", layers::natural_exp_decay);
  def_decay("inverse_time_decay", layers::inverse_time_decay);
  m.def(
      "polynomial_decay",
      [](const LearningRate& rate, double decay_steps, double end, double power, bool cycle) {
        return &layers::polynomial_decay(rate, decay_steps, {end, power, cycle}, python_line());
      },
      "learning_rate"_a, "decay_steps"_a, "end_learning_rate"_a = 0.0001, "power"_a = 1.0,
      "cycle"_a = false);
  m.def(
      "piecewise_decay",
      [](const std::vector<double>& boundaries, const std::vector<double>& values) {
        return &layers::piecewise_decay(boundaries, values, python_line());
      },
      "boundaries"_a, "values"_a);
  m.def(
      "cosine_decay",
      [](const LearningRate& rate, double step_each_epoch, double epochs) {
        return &layers::cosine_decay(rate, step_each_epoch, epochs, python_line());
      },
      "learning_rate"_a, "step_each_epoch"_a, "epochs"_a);
  m.def(
      "linear_lr_warmup",
      [](const LearningRate& rate, double warmup_steps, double start_lr, double end_lr) {
        return &layers::linear_lr_warmup(rate, warmup_steps, start_lr, end_lr, python_line());
      },
      "learning_rate"_a, "warmup_steps"_a, "start_lr"_a, "end_lr"_a);
  m.def(
      "append_LARS",
      [](const ParamGrads& params_grads, Var& learning_rate, double weight_decay) {
        layers::append_lars(params_grads, learning_rate, weight_decay, python_line());
      },
      "params_grads"_a, "learning_rate"_a, "weight_decay"_a);
}

}  // namespace trireme::binding
