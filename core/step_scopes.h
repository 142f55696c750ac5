// What the passes of a sub-block leave behind for its gradient.
#pragma once

#include <string>
#include <vector>

#include "core/scope.h"

namespace trireme {

// Held by the StepScopes or Scope variable of an op with a sub-block: one entry per pass, in order,
// with the forward values that the gradient block reads. Entries are empty where it reads none.
class StepScopes : public HostObject {
 public:
  std::vector<std::vector<Variable>> steps;
  std::string describe() const override {
    return "values kept from " + std::to_string(steps.size()) + " passes";
  }
};

}  // namespace trireme
