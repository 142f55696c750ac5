// Learning rates that change with the step, computed by ops of the program itself (role LRSched).
#pragma once

#include <string>
#include <vector>

#include "ir/backward.h"
#include "layers/arguments.h"

namespace trireme::layers {

inline constexpr const char* kLrDecayCounter = "@LR_DECAY_COUNTER@";
inline constexpr const char* kStepCounter = "@STEP_COUNTER@";

struct StepCounterOptions {
  std::string counter_name = kStepCounter;
  int begin = 1;
  int step = 1;
};
// An int64 variable of one element, `begin` in the first run and `step` more in every run after it.
// One counter per name: the increment op is put in front of the program when it is new.
Var& autoincreased_step_counter(const StepCounterOptions& options = {},
                                SourceLine line = SourceLine::here());
// The counter of all schedules below as float32.
Var& decay_step_counter(int begin = 0, SourceLine line = SourceLine::here());

// A number, or the result of another schedule.
class LearningRate {
 public:
  LearningRate(double value) : value_(value) {}
  LearningRate(Var& var) : var_(&var) {}
  double value() const { return value_; }
  Var* var() const { return var_; }

 private:
  double value_ = 0;
  Var* var_ = nullptr;
};

// learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)
Var& noam_decay(double d_model, double warmup_steps, const LearningRate& learning_rate = 1.0,
                SourceLine line = SourceLine::here());
// learning_rate * decay_rate^(step / decay_steps); staircase: of the whole part only.
Var& exponential_decay(const LearningRate& learning_rate, double decay_steps, double decay_rate,
                       bool staircase = false, SourceLine line = SourceLine::here());
// learning_rate * e^(-decay_rate * step / decay_steps)
Var& natural_exp_decay(const LearningRate& learning_rate, double decay_steps, double decay_rate,
                       bool staircase = false, SourceLine line = SourceLine::here());
// learning_rate / (1 + decay_rate * step / decay_steps)
Var& inverse_time_decay(const LearningRate& learning_rate, double decay_steps, double decay_rate,
                        bool staircase = false, SourceLine line = SourceLine::here());
struct PolynomialOptions {
  double end_learning_rate = 0.0001;
  double power = 1.0;
  bool cycle = false;
};
// (learning_rate - end) * (1 - step / decay_steps)^power + end
Var& polynomial_decay(const LearningRate& learning_rate, double decay_steps,
                      const PolynomialOptions& options = {}, SourceLine line = SourceLine::here());
// values[i] up to (not including) step boundaries[i], then the last of values.
Var& piecewise_decay(const std::vector<double>& boundaries, const std::vector<double>& values,
                     SourceLine line = SourceLine::here());
// learning_rate * 0.5 * (cos(epoch * pi / epochs) + 1)
Var& cosine_decay(const LearningRate& learning_rate, double step_each_epoch, double epochs,
                  SourceLine line = SourceLine::here());
// From start_lr to end_lr in warmup_steps, then learning_rate.
Var& linear_lr_warmup(const LearningRate& learning_rate, double warmup_steps, double start_lr,
                      double end_lr, SourceLine line = SourceLine::here());

// Layer-wise rates: from now on each parameter's rate is
// learning_rate * |param| / (|grad| + weight_decay * |param|), times its own factor. The optimizer
// that is called afterwards uses them instead of its own rate.
void append_lars(const ParamGrads& params_grads, Var& learning_rate, double weight_decay,
                 SourceLine line = SourceLine::here());

}  // namespace trireme::layers
