// Optimizers around another optimizer: recomputed forward parts, slow weights, gradients of several
// steps.
#include "layers/optimizer_wrapper.h"

#include "core/text.h"
#include "layers/control_flow.h"
#include "layers/defaults.h"
#include "layers/math_op.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme::optimizer {
namespace {

std::shared_ptr<Optimizer> given(std::shared_ptr<Optimizer> inner) {
  if (!inner) {
    throw Error(ErrorKind::assertion, "the inner optimizer is missing")
        .fix("give an optimizer such as SGD(0.01)");
  }
  return inner;
}

}  // namespace

Recompute::Recompute(std::shared_ptr<Optimizer> inner)
    : Optimizer("recompute", given(inner)->learning_rate(), given(inner)->options()),
      inner_(std::move(inner)) {}

const std::vector<std::string>& Recompute::get_opti_var_name_list() const {
  return inner_->get_opti_var_name_list();
}

Var* Recompute::learning_rate_var(const Program* program) const {
  return inner_->learning_rate_var(program);
}

ParamGrads Recompute::backward(Var& loss, const MinimizeOptions& options, SourceLine line) {
  if (checkpoints_.empty()) {
    throw Error(ErrorKind::assertion, "no checkpoints are set")
        .in("recompute")
        .at(line)
        .fix("call _set_checkpoints with the variables to keep");
  }
  MinimizeOptions with_checkpoints = options;
  with_checkpoints.checkpoints = checkpoints_;
  return inner_->backward(loss, with_checkpoints, line);
}

std::vector<Op*> Recompute::apply_gradients(const ParamGrads& params_grads, SourceLine line) {
  return inner_->apply_gradients(params_grads, line);
}

std::vector<Op*> Recompute::apply_optimize(Var& loss, const std::shared_ptr<Program>& startup,
                                           const ParamGrads& params_grads, SourceLine line) {
  return inner_->apply_optimize(loss, startup, params_grads, line);
}

Op& Recompute::append_optimize_op(Block& block, Var& param, Var& grad) {
  return inner_->append_optimize_op(block, param, grad);
}

Lookahead::Lookahead(std::shared_ptr<Optimizer> inner, double alpha, int k)
    : inner_(given(std::move(inner))), alpha_(alpha), k_(k) {
  if (!(alpha >= 0 && alpha <= 1)) {
    throw Error(ErrorKind::assertion, cat("alpha is ", alpha, " but must be from 0 to 1"));
  }
  if (k <= 0) throw Error(ErrorKind::assertion, cat("k is ", k, " but must be positive"));
}

Minimized Lookahead::minimize(Var& loss, const std::shared_ptr<Program>& startup, SourceLine line) {
  const LineScope scope(line);
  Minimized result = inner_->minimize(loss, {.startup = startup}, line);
  Program& program = loss.block().program();
  const ProgramGuard guard(program.shared_from_this(), startup);
  Block& block = program.global_block();
  Block& startup_block = default_startup_program().global_block();

  std::vector<std::pair<Var*, Var*>> fast_and_slow;
  for (Var* fast : program.parameters()) {
    if (&fast->block() != &block) continue;
    const VarSpec slow{.name = fast->name() + "@SLOW",
                       .dtype = fast->dtype(),
                       .shape = fast->shape(),
                       .persistable = true};
    fast_and_slow.emplace_back(fast, &block.create_var(slow));
    startup_block.var(fast->name());  // an Error here, not when the startup program runs
    startup_block.create_var(slow);
    startup_block.append_op({"assign", {{"X", {fast->name()}}}, {{"Out", {slow.name}}}, {}});
  }

  using namespace layers;
  Var& k = create_global_var({1}, k_, DType::int32, {.persistable = true, .name = "lookahead_k"});
  Var& alpha = create_global_var({1}, alpha_, DType::float32,
                                 {.persistable = true, .name = "lookahead_alpha"});
  Var& step =
      create_global_var({1}, 0, DType::int32, {.persistable = true, .name = "lookahead_step"});
  increment(step);
  Var& zero = fill_constant({1}, DType::float32, 0.0);
  Var& one = fill_constant({1}, DType::float32, 1.0);
  Var& passed = elementwise("elementwise_mod", step, k);
  Switch pick;
  pick.when(math_op("equal", passed, zero), [&] {
    for (const auto& [fast, slow] : fast_and_slow) {
      Var& moved = *fast * alpha + *slow * (one - alpha);  // in the parameter's type
      assign(moved, slow);
      assign(moved, fast);
    }
  });
  return result;
}

GradientMerge::GradientMerge(std::shared_ptr<Optimizer> inner, int k_steps, bool average)
    : inner_(given(std::move(inner))), k_steps_(k_steps), average_(average) {
  if (k_steps <= 0) {
    throw Error(ErrorKind::assertion, cat("k_steps is ", k_steps, " but must be positive"));
  }
}

Minimized GradientMerge::minimize(Var& loss, const MinimizeOptions& options, SourceLine line) {
  const LineScope scope(line);
  Minimized made;
  made.params_grads = inner_->backward(loss, options, line);
  if (k_steps_ == 1) {
    made.ops = inner_->apply_optimize(loss, options.startup, made.params_grads, line);
    return made;
  }
  Program& program = loss.block().program();
  const ProgramGuard guard(program.shared_from_this(), options.startup);
  using namespace layers;
  ParamGrads sums;
  for (const auto& [param, grad] : made.params_grads) {
    if (!grad) continue;
    if (grad->type() == VarType::selected_rows) {
      throw Error(cat("the gradient of ", param->name(),
                      " is SelectedRows, which do not add up over steps"))
          .in("gradient_merge")
          .at(line)
          .fix("give embedding is_sparse=False");
    }
    const RoleGuard role = optimized_guard(program, {param->name(), grad->name()});
    Var& sum = create_global_var(param->shape().to_vector(), 0, param->dtype(),
                                 {.persistable = true, .name = param->name() + "@GRAD@MERGED"});
    assign(elementwise_add(sum, *grad), &sum);
    sums.emplace_back(param, &sum);
  }
  const RoleGuard role = optimized_guard(program, {});
  Var& step =
      create_global_var({1}, 0, DType::int32, {.persistable = true, .name = "gradient_merge_step"});
  Var& k = create_global_var({1}, k_steps_, DType::int32,
                             {.persistable = true, .name = "gradient_merge_k"});
  increment(step);
  Switch pick;
  pick.when(math_op("equal", elementwise("elementwise_mod", step, k),
                    fill_constant({1}, DType::int32, 0)),
            [&] {
              ParamGrads merged;
              for (const auto& [param, sum] : sums) {
                merged.emplace_back(param,
                                    average_ ? &scale(*sum, {.scale = 1.0 / k_steps_}) : sum);
              }
              made.ops = inner_->apply_gradients(merged, line);
              for (const auto& [param, sum] : sums) {
                assign(fill_constant(param->shape().to_vector(), param->dtype(), 0), sum);
              }
            });
  return made;
}

}  // namespace trireme::optimizer
