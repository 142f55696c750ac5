// What the passes of a sub-block leave behind for its gradient.
#pragma once

#include <string>
#include <vector>

#include "core/scope.h"

namespace trireme {

// Held by the StepScopes or Scope variable of an op with a sub-block: one entry per pass, in order,
// with the forward values that the gradient block reads. Entries are empty where it reads none. The
// next run of the op writes over the entries of this one, in their memory.
class StepScopes : public HostObject {
 public:
  using Values = std::vector<Variable>;

  size_t size() const { return count_; }
  const Values& operator[](size_t pass) const { return passes_[pass]; }
  void restart() { count_ = 0; }
  // The entry of one more pass; its values are an earlier run's, or hold nothing.
  Values& add(size_t values) {
    if (count_ == passes_.size()) passes_.emplace_back();
    Values& pass = passes_[count_++];
    pass.resize(values);
    return pass;
  }
  template <class Use>
  void each_held(Use use) const {  // with those of earlier runs
    for (const Values& pass : passes_) {
      for (const Variable& value : pass) use(value);
    }
  }
  std::string describe() const override {
    return "values kept from " + std::to_string(count_) + " passes";
  }

 private:
  std::vector<Values> passes_;  // those from count_ on are spare
  size_t count_ = 0;
};

}  // namespace trireme
