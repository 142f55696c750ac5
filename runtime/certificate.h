// One step of a program, run in one way and another, and held against each other.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executor.h"

namespace trireme {

// How a step is run.
struct RunWay {
  Place place = cpu_place();
  int devices = 1;               // places of that kind that the batch is shared out over
  bool sync_batch_norm = false;  // of several
  bool tree = false;             // gradients of several are summed as a tree
  int threads = 0;               // 0: as many as there are
  std::vector<std::string> passes_off = {};
  int steps = 1;  // one after the other on the same feeds
  // Fetches what the caller asks for, and no more: fused ops stay fused, as in any other run. Else
  // every result of every op is looked at.
  std::vector<std::string> fetches = {};
};

struct Comparison {
  int compared = 0;      // variables
  int equal = 0;         // of them, bit for bit
  double largest = 0;    // difference, as a share of the largest number of its variable
  std::string variable;  // where that is
  // Elements of parameters whose gradients are nothing but rounding (a bias in front of a
  // batch_norm has none): an optimizer that divides by their size makes whole steps of them.
  int64_t left_out = 0;
  // The first op, in program order, with a result that differs by more than the bound; empty: none.
  std::string op, differs;
  SourceLine line;
  double difference = 0;  // of that result, as above
};

// What a step left: results of ops, and the variables that stay.
class StepValues {
 public:
  // Runs on copies of the scope's variables: the scope stays as it is.
  StepValues(const Program& program, const Feeds& feeds, const Scope& scope, const RunWay& way,
             const std::function<void()>& poll = nullptr);
  explicit StepValues(const Feeds& values);  // those of a step somebody else ran
  StepValues(StepValues&&) noexcept;
  ~StepValues();

 private:
  friend Comparison compare(const Program&, const StepValues&, const StepValues&, double);
  void bring_home();
  const Replicas::Result* fetched(const std::string& name) const;
  std::vector<std::pair<std::string, Replicas::Result>> fetched_;  // by name
  std::unique_ptr<Scope> scope_;
};

// By what ops of the first block write, in their order. Differences up to `bound` of a variable's
// largest number, or up to 1e-7, count as none; with bound 0 every bit counts. Where `b` ran on
// other places than `a`, the verdict hangs on what stays and on means over the batch: rows of other
// results may stand in another order. Where it differs, the first op is looked for among all.
Comparison compare(const Program& program, const StepValues& a, const StepValues& b, double bound);

}  // namespace trireme
