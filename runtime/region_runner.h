// Runs a sub-block: what its iterations begin with, what they leave, what their gradients read.
#pragma once

#include <vector>

#include "runtime/frame.h"

namespace trireme {

class RegionRunner {
 public:
  RegionRunner(Frame& outer, const Plan::RegionPlan& region);

  Frame& body() { return body_; }
  const Frame& body() const { return body_; }
  const Plan::RegionPlan& plan() const { return region_; }

  // One run of the sub-block. What its gradient reads is added to `keep`, where there is one.
  void run(StepScopes* keep);
  // Iterations that hand values on: any number of them between begin and end. `rows`: the length of
  // the sequences that are sliced and stacked.
  void begin(int64_t rows);
  void iterate(const RunContext::Iteration& iteration);
  void end();
  // The loop begins anew: what was packed for it may be another's.
  void forget_packed() { body_.placement_.forget_packed(); }

 private:
  void take_result(size_t number, const RunContext::Iteration& iteration);
  void append(int slot, const Tensor& rows, int64_t& before);
  Variable& outer(int slot) const { return outer_.slots_[slot]; }
  Place outer_place(int slot) const {
    return outer_.plan_.slots[slot].on_device ? outer_.place_ : cpu_place();
  }
  Place inner_place(int value) const {
    const bool on_device = region_.plan->graph.values[value].on_device;
    return on_device ? outer_.place_ : cpu_place();
  }
  Variable& inner(int value) const { return body_.slots_.of(value); }

  Frame& outer_;
  const Plan::RegionPlan& region_;
  Frame body_;
  int64_t rows_ = 0;
  std::vector<bool> has_result_;   // by port: these iterations have given something
  std::vector<int64_t> appended_;  // by port: rows that they have given
};

}  // namespace trireme
