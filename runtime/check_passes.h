// Numbers first: one step with all passes off against the same step with each pass on.
#pragma once

#include <string>
#include <vector>

#include "runtime/executor.h"

namespace trireme {

struct PassCheck {
  // "all" for all of them together; "all, fetching results alone" for the plan as it runs: to
  // look at every op, the others fetch what fused ops would not even store.
  std::string pass;
  // The first op, in program order, one of whose results differs; empty when none does.
  std::string op, variable;
  SourceLine line;
  double difference = 0;  // largest, absolute, of that variable
  bool equal() const { return op.empty(); }
};

struct PassCheckOptions {
  // Differences up to this share of a variable's largest number count as none; 0: equal bits.
  double tolerance = 0;
  Executor::ParallelOptions parallel = {};  // where there are feeds for several devices
  std::function<void()> poll = nullptr;     // called now and then; throws to end the check
};
// Runs copies of the scope's variables: the scope stays as it is. Feeds by device.
std::vector<PassCheck> check_passes(const Program& program, const std::vector<Feeds>& feeds,
                                    const Scope& scope, const PassCheckOptions& options);
std::vector<PassCheck> check_passes(const Program& program, const Feeds& feeds, const Scope& scope,
                                    double tolerance = 0);
std::string to_text(const std::vector<PassCheck>& checks);

}  // namespace trireme
