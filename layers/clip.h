// Gradient clips, by value, by norm and by the norm of all gradients together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/backward.h"
#include "ir/program.h"
#include "layers/arguments.h"

namespace trireme {

// Derive from it for a clip of your own.
class GradientClip {
 public:
  virtual ~GradientClip() = default;
  // The pairs with clipped gradients. Pairs without a gradient, and parameters that ask not to be
  // clipped, pass through.
  virtual ParamGrads operator()(const ParamGrads& params_grads) = 0;
  virtual std::string describe() const = 0;
  // Clips of one group are applied together when they come from set_gradient_clip; empty: alone.
  virtual std::string group() const { return {}; }

  std::function<bool(const Var&)> need_clip;  // asked for each parameter; empty: all

 protected:
  bool wants(const Var& param) const;
};

// Into [min, max]; min defaults to -max.
class GradientClipByValue final : public GradientClip {
 public:
  explicit GradientClipByValue(double max, std::optional<double> min = std::nullopt);
  ParamGrads operator()(const ParamGrads& params_grads) override;
  std::string describe() const override;

 private:
  double max_, min_;
};

// Scaled down where its own L2 norm is larger than clip_norm.
class GradientClipByNorm final : public GradientClip {
 public:
  explicit GradientClipByNorm(double clip_norm) : clip_norm_(clip_norm) {}
  ParamGrads operator()(const ParamGrads& params_grads) override;
  std::string describe() const override;

 private:
  double clip_norm_;
};

// All scaled by clip_norm / max(clip_norm, norm of all of them together).
class GradientClipByGlobalNorm final : public GradientClip {
 public:
  explicit GradientClipByGlobalNorm(double clip_norm, std::string group_name = "default_group")
      : clip_norm_(clip_norm), group_name_(std::move(group_name)) {}
  ParamGrads operator()(const ParamGrads& params_grads) override;
  std::string describe() const override;
  std::string group() const override { return group_name_; }
  double clip_norm() const { return clip_norm_; }

 private:
  double clip_norm_;
  std::string group_name_;
};

// The old way: the clip is written on parameters and used by optimizers that have none.
// Empty `params`: all parameters of `program`'s global block. Null program: the default one.
void set_gradient_clip(const std::shared_ptr<GradientClip>& clip,
                       const std::vector<std::string>& params = {}, Program* program = nullptr,
                       SourceLine line = SourceLine::here());
// Applies what set_gradient_clip wrote; each parameter gets its own clip.
ParamGrads append_gradient_clip_ops(const ParamGrads& params_grads);

// Clips the gradient of one variable inside backward, right after the op that makes it.
struct ErrorClipByValue {
  explicit ErrorClipByValue(double max, std::optional<double> min = std::nullopt);
  double max, min;
};
void set_error_clip(Var& var, const ErrorClipByValue& clip);
// For BackwardOptions::callbacks: appends the clip ops of variables that have an error clip.
void error_clip_callback(Block& block, Op& grad_op);

}  // namespace trireme
