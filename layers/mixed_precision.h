// Mixed precision for static programs: which ops compute in half precision, the casts around them,
// and an optimizer that scales the loss so that small gradients survive.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layers/optimizer.h"

namespace trireme::mixed_precision {

// Ops by how they bear half precision: white ones gain from it, black ones need float32, gray ones
// follow their inputs. Ops in none of the lists are black.
struct OpLists {
  std::set<std::string> white, black, gray;
  std::set<std::string> black_varnames = {};  // ops that read or write one of these are black
};
// The original's lists, changed by the user's own.
OpLists op_lists(const std::set<std::string>& custom_white = {},
                 const std::set<std::string>& custom_black = {},
                 const std::set<std::string>& custom_black_varnames = {});

// Casts the inputs of white ops to `half`, and those of black ops back to float32. Before backward.
void rewrite_program(Program& program, const OpLists& lists, DType half = DType::float16);

struct DecorateOptions {
  std::optional<OpLists> lists = std::nullopt;
  double init_loss_scaling = 32768;
  int incr_every_n_steps = 1000;
  int decr_every_n_nan_or_inf = 2;
  double incr_ratio = 2;
  double decr_ratio = 0.8;
  bool use_dynamic_loss_scaling = true;
  DType half = DType::float16;
};

// Parameters stay float32, casts of them are what ops read: they are their own master weights.
class OptimizerWithMixedPrecision final : public Optimizer {
 public:
  OptimizerWithMixedPrecision(std::shared_ptr<Optimizer> inner, DecorateOptions options);

  ParamGrads backward(Var& loss, const MinimizeOptions& options = {},
                      SourceLine line = SourceLine::here()) override;
  std::vector<Op*> apply_gradients(const ParamGrads& params_grads,
                                   SourceLine line = SourceLine::here()) override;
  std::vector<Op*> apply_optimize(Var& loss, const std::shared_ptr<Program>& startup,
                                  const ParamGrads& params_grads,
                                  SourceLine line = SourceLine::here()) override;
  Op& append_optimize_op(Block& block, Var& param, Var& grad) override;
  const std::vector<std::string>& get_opti_var_name_list() const override;
  Var* learning_rate_var(const Program* program = nullptr) const override;

  Optimizer& inner() const { return *inner_; }
  Var* loss_scaling() const { return loss_scaling_; }  // null before backward
  Var* scaled_loss() const { return scaled_loss_; }

 private:
  void create_scale();
  ParamGrads unscaled(const ParamGrads& params_grads);

  std::shared_ptr<Optimizer> inner_;
  DecorateOptions amp_;
  Var* loss_scaling_ = nullptr;
  Var *good_steps_ = nullptr, *bad_steps_ = nullptr;
  Var* scaled_loss_ = nullptr;
};

}  // namespace trireme::mixed_precision
