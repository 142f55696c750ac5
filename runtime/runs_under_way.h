// Which runs are under way, so that a forked child knows what it inherited half done.
#pragma once

#include "core/scope.h"

namespace trireme {

// For as long as it lives, a run uses this scope's variables and, where it is not null, this plan
// for several devices.
class RunUnderWay {
 public:
  RunUnderWay(const Scope& scope, const void* replicas, bool writes);
  ~RunUnderWay();
  RunUnderWay(const RunUnderWay&) = delete;
  RunUnderWay& operator=(const RunUnderWay&) = delete;

 private:
  friend struct RunsUnderWay;
  const Scope* scope_;
  const void* replicas_;
  bool writes_;
  bool linked_ = false;
  RunUnderWay *next_ = nullptr, *previous_ = nullptr;
};

// Whether the fork that made this process cut runs off.
bool forked_during_runs();
// An Error when another thread was running in this scope at the moment this process was forked: the
// child has the thread's locks and half-made results, but not the thread. Runs that only read go
// side by side with runs that only read.
void check_not_cut_off(const Scope& scope, bool writes);
// The same question about a plan for several devices, and whether there is any such run at all.
bool is_cut_off(const void* replicas);
bool any_run_cut_off();

}  // namespace trireme
