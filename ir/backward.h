// append_backward and gradients: a program's gradient ops, with the original's names, slots and
// roles.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace trireme {

struct BackwardOptions {
  std::vector<std::string> parameter_list;  // empty: all trainable parameters of the global block
  bool only_listed = false;                 // parameter_list was given
  std::set<std::string> no_grad;
  std::vector<std::string> checkpoints;  // recompute between these
  // Called after each gradient op is appended (error clips).
  std::vector<std::function<void(Block&, Op&)>> callbacks;
};

using ParamGrads = std::vector<std::pair<Var*, Var*>>;

// Appends gradient ops for `loss` to its program and returns (parameter, gradient) pairs.
ParamGrads append_backward(Var& loss, const BackwardOptions& options = {});

// d(sum of targets weighted by target_gradients)/d(inputs); null where unreachable.
std::vector<Var*> gradients(const std::vector<Var*>& targets, const std::vector<Var*>& inputs,
                            const std::vector<Var*>& target_gradients = {},
                            const std::set<std::string>& no_grad = {});

}  // namespace trireme
