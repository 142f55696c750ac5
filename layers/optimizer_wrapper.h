// Optimizers around another optimizer: recomputed forward parts, slow weights, gradients of several
// steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/optimizer.h"

namespace trireme::optimizer {

// Backward computes what lies between the checkpoints again instead of keeping it.
class Recompute final : public Optimizer {
 public:
  explicit Recompute(std::shared_ptr<Optimizer> inner);
  void set_checkpoints(std::vector<std::string> names) { checkpoints_ = std::move(names); }
  Optimizer& inner() const { return *inner_; }
  const std::vector<std::string>& get_opti_var_name_list() const override;
  Var* learning_rate_var(const Program* program = nullptr) const override;

  ParamGrads backward(Var& loss, const MinimizeOptions& options = {},
                      SourceLine line = SourceLine::here()) override;
  std::vector<Op*> apply_gradients(const ParamGrads& params_grads,
                                   SourceLine line = SourceLine::here()) override;
  std::vector<Op*> apply_optimize(Var& loss, const std::shared_ptr<Program>& startup,
                                  const ParamGrads& params_grads,
                                  SourceLine line = SourceLine::here()) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;

 private:
  std::shared_ptr<Optimizer> inner_;
  std::vector<std::string> checkpoints_;
};

// Every k steps: slow += alpha * (fast - slow), and fast becomes slow.
class Lookahead {
 public:
  explicit Lookahead(std::shared_ptr<Optimizer> inner, double alpha = 0.5, int k = 5);
  Minimized minimize(Var& loss, const std::shared_ptr<Program>& startup = nullptr,
                     SourceLine line = SourceLine::here());
  Optimizer& inner() const { return *inner_; }

 private:
  std::shared_ptr<Optimizer> inner_;
  double alpha_;
  int k_;
};

// Gradients add up over k steps; in the last of them the inner optimizer updates with their sum, or
// mean.
class GradientMerge {
 public:
  explicit GradientMerge(std::shared_ptr<Optimizer> inner, int k_steps = 1, bool average = true);
  Minimized minimize(Var& loss, const MinimizeOptions& options = {},
                     SourceLine line = SourceLine::here());
  Optimizer& inner() const { return *inner_; }

 private:
  std::shared_ptr<Optimizer> inner_;
  int k_steps_;
  bool average_;
};

}  // namespace trireme::optimizer
