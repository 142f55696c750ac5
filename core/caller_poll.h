// What a call that waits for the outside world looks at now and then, so that Ctrl-C ends it.
#pragma once

#include <functional>

namespace trireme {

// While it lives, poll_caller() in this thread calls `poll`. They nest.
class CallerPoll {
 public:
  explicit CallerPoll(const std::function<void()>& poll);
  ~CallerPoll();
  CallerPoll(const CallerPoll&) = delete;
  CallerPoll& operator=(const CallerPoll&) = delete;

 private:
  const std::function<void()>* before_;
};

// May throw: then the wait is over.
void poll_caller();

}  // namespace trireme
