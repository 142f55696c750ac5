// Losses.
#pragma once

#include <string>

#include "layers/arguments.h"

namespace trireme::layers {

inline constexpr int kIgnoreIndex = -100;

struct CrossEntropyOptions {
  bool soft_label = false;  // false: cross_entropy2 on integer labels
  int ignore_index = kIgnoreIndex;
};
// `input` are probabilities.
Var& cross_entropy(Var& input, Var& label, const CrossEntropyOptions& options = {},
                   SourceLine line = SourceLine::here());

struct SoftmaxCrossEntropyOptions {
  bool soft_label = false;
  int ignore_index = kIgnoreIndex;
  bool numeric_stable_mode = true;
  int axis = -1;
};
struct SoftmaxCrossEntropy {
  Var& loss;
  Var& softmax;
  operator Var&() const { return loss; }  // most callers want the loss
};
SoftmaxCrossEntropy softmax_with_cross_entropy(Var& logits, Var& label,
                                               const SoftmaxCrossEntropyOptions& options = {},
                                               SourceLine line = SourceLine::here());

// (input - label)^2, element by element.
Var& square_error_cost(Var& input, Var& label, SourceLine line = SourceLine::here());

struct SigmoidCrossEntropyOptions {
  int ignore_index = kIgnoreIndex;
  bool normalize = false;
  std::string name = {};
};
Var& sigmoid_cross_entropy_with_logits(Var& x, Var& label,
                                       const SigmoidCrossEntropyOptions& options = {},
                                       SourceLine line = SourceLine::here());

Var& log_loss(Var& input, Var& label, double epsilon = 1e-4, const std::string& name = {},
              SourceLine line = SourceLine::here());

struct LabelSmoothOptions {
  Var* prior_dist = nullptr;  // null: uniform
  double epsilon = 0.1;
  DType dtype = DType::float32;
  std::string name = {};
};
Var& label_smooth(Var& label, const LabelSmoothOptions& options = {},
                  SourceLine line = SourceLine::here());

// The mean op of fluid.layers.mean; paddle.mean is reduce_mean (layers/ops.h).
Var& mean(Var& x, const std::string& name = {}, SourceLine line = SourceLine::here());

}  // namespace trireme::layers
