// Links the marks of runs as they begin and end, and keeps those that a fork cut off.
#include "runtime/runs_under_way.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "core/error.h"

namespace trireme {

// Marks are linked, not stored: a steady step asks for no memory.
struct RunsUnderWay {
  struct CutOff {
    const Scope* scope;
    bool writes;
  };
  std::mutex mutex;
  RunUnderWay* first = nullptr;
  std::vector<CutOff> cut_off;           // by the fork that made this process
  std::atomic<bool> any_cut_off{false};  // what every run asks

  static RunsUnderWay& all() {
    static RunsUnderWay* runs = [] {
      pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); },
                     [] { all().forget_threads(); });
      return new RunsUnderWay;  // never destroyed: daemon threads may run at exit
    }();
    return *runs;
  }

  void enter(RunUnderWay& run) {
    const std::lock_guard lock(mutex);
    run.next_ = first;
    if (first) first->previous_ = &run;
    first = &run;
    run.linked_ = true;
  }

  void leave(RunUnderWay& run) {
    const std::lock_guard lock(mutex);
    if (!run.linked_) return;  // of a fork inside the run
    (run.previous_ ? run.previous_->next_ : first) = run.next_;
    if (run.next_) run.next_->previous_ = run.previous_;
  }

 private:
  // In the child, which has one thread and got the mutex locked. A fork inside a run (in a Python
  // op) takes that run along as well: it does not go on in the child either.
  void forget_threads() {
    for (RunUnderWay* run = first; run; run = run->next_) {
      cut_off.push_back({run->scope_, run->writes_});
      run->linked_ = false;
    }
    first = nullptr;
    any_cut_off = !cut_off.empty();
    mutex.unlock();
  }
};

RunUnderWay::RunUnderWay(const Scope& scope, bool writes) : scope_(&scope.root()), writes_(writes) {
  RunsUnderWay::all().enter(*this);
}

RunUnderWay::~RunUnderWay() { RunsUnderWay::all().leave(*this); }

void check_not_cut_off(const Scope& scope, bool writes) {
  RunsUnderWay& runs = RunsUnderWay::all();
  if (!runs.any_cut_off.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(runs.mutex);
  const bool hit = std::ranges::any_of(runs.cut_off, [&](const RunsUnderWay::CutOff& run) {
    return run.scope == &scope.root() && (run.writes || writes);
  });
  if (!hit) return;
  throw Error(ErrorKind::precondition,
              "this process was forked while another thread was running a program in this scope: "
              "its variables may be half updated")
      .fix("fork while nothing runs, or use a new Scope in the child and load or initialise it");
}

}  // namespace trireme
