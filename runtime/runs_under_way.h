// Which runs are under way, so that a forked child knows what it inherited half done.
#pragma once

#include "core/scope.h"

namespace trireme {

// For as long as it lives, a run uses this scope's variables.
class RunUnderWay {
 public:
  RunUnderWay(const Scope& scope, bool writes);
  ~RunUnderWay();
  RunUnderWay(const RunUnderWay&) = delete;
  RunUnderWay& operator=(const RunUnderWay&) = delete;

 private:
  friend struct RunsUnderWay;
  const Scope* scope_;
  bool writes_;
  bool linked_ = false;
  RunUnderWay *next_ = nullptr, *previous_ = nullptr;
};

// An Error when another thread was running in this scope at the moment this process was forked: the
// child has the thread's locks and half-made results, but not the thread. Runs that only read go
// side by side with runs that only read.
void check_not_cut_off(const Scope& scope, bool writes);

}  // namespace trireme
