// The poll of the run that this thread is in.
#include "core/caller_poll.h"

namespace trireme {
namespace {

thread_local const std::function<void()>* polled_now = nullptr;

}  // namespace

CallerPoll::CallerPoll(const std::function<void()>& poll) : before_(polled_now) {
  polled_now = &poll;
}
CallerPoll::~CallerPoll() { polled_now = before_; }

void poll_caller() {
  if (polled_now && *polled_now) (*polled_now)();
}

}  // namespace trireme
