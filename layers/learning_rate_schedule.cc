// Learning-rate schedules as ops: each reads the step counter and computes the rate anew in every
// run.
#include "layers/learning_rate_schedule.h"

#include <cmath>
#include <numbers>

#include "core/text.h"
#include "layers/control_flow.h"
#include "layers/defaults.h"
#include "layers/layer_helper.h"
#include "layers/math_op.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme::layers {
namespace {

RoleGuard schedule_guard() { return lr_schedule_guard(default_main_program()); }

Var& times(const LearningRate& rate, Var& factor) {
  return rate.var() ? *rate.var() * factor : rate.value() * factor;
}

Var& power(Var& base, double exponent) { return math_op("elementwise_pow", base, exponent); }

// step / decay_steps, or its whole part.
Var& progress(double decay_steps, bool staircase) {
  Var& part = decay_step_counter() / decay_steps;
  return staircase ? floor(part) : part;
}

Var& number(double value) { return fill_constant({1}, DType::float32, value); }

}  // namespace

Var& autoincreased_step_counter(const StepCounterOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("global_step_counter");
  const auto [counter, is_new] = helper.create_or_get_global_variable(
      {.name = options.counter_name, .dtype = DType::int64, .shape = {1}, .persistable = true});
  if (is_new) {
    initializer::Constant start(options.begin - 1, /*force_cpu=*/true);
    helper.set_variable_initializer(*counter, start);
    helper.main_program().global_block().prepend_op(
        {.type = "increment",
         .inputs = {{"X", {counter->name()}}},
         .outputs = {{"Out", {counter->name()}}},
         .attrs = {{"step", static_cast<float>(options.step)}}},
        user_line());
    counter->set_stop_gradient(true);
  }
  return *counter;
}

Var& decay_step_counter(int begin, SourceLine line) {
  const LineScope scope(line);
  return cast(autoincreased_step_counter({.counter_name = kLrDecayCounter, .begin = begin}),
              DType::float32);
}

Var& noam_decay(double d_model, double warmup_steps, const LearningRate& learning_rate,
                SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  Var& step = decay_step_counter(1);
  Var& falling = power(step, -0.5);
  Var& rising = std::pow(warmup_steps, -1.5) * step;
  Var& lower = elementwise_min(falling, rising);
  const double width = std::pow(d_model, -0.5);
  if (learning_rate.var()) return (*learning_rate.var() * width) * lower;
  return (learning_rate.value() * width) * lower;
}

Var& exponential_decay(const LearningRate& learning_rate, double decay_steps, double decay_rate,
                       bool staircase, SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  return times(learning_rate,
               reverse_math_op("elementwise_pow", decay_rate, progress(decay_steps, staircase)));
}

Var& natural_exp_decay(const LearningRate& learning_rate, double decay_steps, double decay_rate,
                       bool staircase, SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  return times(learning_rate, exp(-decay_rate * progress(decay_steps, staircase)));
}

Var& inverse_time_decay(const LearningRate& learning_rate, double decay_steps, double decay_rate,
                        bool staircase, SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  Var& divisor = 1 + decay_rate * progress(decay_steps, staircase);
  return learning_rate.var() ? *learning_rate.var() / divisor : learning_rate.value() / divisor;
}

Var& polynomial_decay(const LearningRate& learning_rate, double decay_steps,
                      const PolynomialOptions& options, SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  Var* done = nullptr;  // the share of decay_steps behind us
  Var& step = decay_step_counter();
  if (options.cycle) {
    Var& cycles = ceil(step / decay_steps);
    Var& zero = number(0);
    Var& one = number(1);
    Switch start;
    start.when(math_op("equal", step, zero), [&] { assign(one, &cycles); });
    done = &(step / (decay_steps * cycles));
  } else {
    done = &(elementwise_min(step, number(decay_steps)) / decay_steps);
  }
  Var& remaining = power(1 - *done, options.power);
  const double end = options.end_learning_rate;
  if (learning_rate.var()) return (*learning_rate.var() - end) * remaining + end;
  return (learning_rate.value() - end) * remaining + end;
}

Var& piecewise_decay(const std::vector<double>& boundaries, const std::vector<double>& values,
                     SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  if (values.size() != boundaries.size() + 1) {
    throw Error(cat(values.size(), " values for ", boundaries.size(), " boundaries"))
        .in("piecewise_decay")
        .at(user_line())
        .fix("give one value more than boundaries");
  }
  Var& step = decay_step_counter();
  Var& rate =
      create_global_var({1}, 0, DType::float32, {.persistable = true, .name = "learning_rate"});
  Switch pick;
  for (size_t i = 0; i < boundaries.size(); ++i) {
    Var& boundary = fill_constant({1}, DType::float32, boundaries[i], {.force_cpu = true});
    Var& value = number(values[i]);
    pick.when(step < boundary, [&] { assign(value, &rate); });
  }
  Var& last = number(values.back());
  if (boundaries.empty()) {
    assign(last, &rate);
  } else {
    pick.otherwise([&] { assign(last, &rate); });
  }
  return rate;
}

Var& cosine_decay(const LearningRate& learning_rate, double step_each_epoch, double epochs,
                  SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  Var& epoch = floor(decay_step_counter() / step_each_epoch);
  Var& wave = cos(epoch * std::numbers::pi / epochs) + 1;
  if (learning_rate.var()) return (*learning_rate.var() * 0.5) * wave;
  return (learning_rate.value() * 0.5) * wave;
}

Var& linear_lr_warmup(const LearningRate& learning_rate, double warmup_steps, double start_lr,
                      double end_lr, SourceLine line) {
  const LineScope scope(line);
  const RoleGuard guard = schedule_guard();
  const DType dtype = learning_rate.var() ? learning_rate.var()->dtype() : DType::float32;
  Var& rate =
      create_global_var({1}, 0, dtype, {.persistable = true, .name = "learning_rate_warmup"});
  Var& step = decay_step_counter();
  Switch pick;
  pick.when(step < warmup_steps,
            [&] { assign(start_lr + (end_lr - start_lr) * (step / warmup_steps), &rate); });
  pick.otherwise([&] {
    assign(learning_rate.var() ? *learning_rate.var()
                               : fill_constant({1}, dtype, learning_rate.value()),
           &rate);
  });
  return rate;
}

void append_lars(const ParamGrads& params_grads, Var& learning_rate, double weight_decay,
                 SourceLine line) {
  for (const auto& [param, grad] : params_grads) {
    if (!grad) continue;
    if (grad->type() != VarType::lod_tensor) {
      throw Error(ErrorKind::unimplemented, cat("the gradient of ", param->name(),
                                                " is sparse: it has no norm over all rows"))
          .fix("leave the parameter out of params_grads, or give its embedding is_sparse=False");
    }
    const RoleGuard role = optimized_guard(param->block().program(), {param->name(), grad->name()});
    const NameScope name_scope("optimizer");
    const auto norm = [line](Var& x) -> Var& {
      return layers::sqrt(layers::reduce_sum(layers::square(x, line), {}, line), line);
    };
    Var& param_norm = norm(*param);
    Var& grad_norm = norm(*grad);
    Var& balanced = weight_decay == 1.0 ? grad_norm + param_norm
                                        : grad_norm + param_norm * static_cast<float>(weight_decay);
    ParameterInfo& own = param->edit_parameter();
    Var& base = own.learning_rate == 1.0f ? learning_rate : learning_rate * own.learning_rate;
    own.learning_rate_var = (base * param_norm / balanced).name();
  }
}

}  // namespace trireme::layers
