// Looking groups up by name, and waiting for one collective.
#include "comm/ring.h"

#include <algorithm>
#include <thread>

#include "core/caller_poll.h"
#include "core/error.h"
#include "core/text.h"

namespace trireme {

std::string Ring::describe() const { return cat("rank ", group->rank(), " of ", join(endpoints)); }

std::string ring_name(int ring_id) { return cat("@RING@", ring_id); }

std::shared_ptr<Ring> find_ring(const Scope& scope, const std::string& name) {
  const Variable* found = scope.find(name);
  if (auto ring = found ? found->host<Ring>() : nullptr) return ring;
  throw Error(ErrorKind::precondition, cat("the processes have not met: the scope has no ", name))
      .fix("run the startup program that the transpiler was given, in the same scope, first");
}

// Pauses grow with the time that has passed: what is asked too late is a small part of the whole.
void run_collective(Ticket& ticket, const Exchanged& what) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kShortest{20}, kLongest{1000};
  constexpr int kPart = 64;
  ticket.start(what);
  const auto began = Clock::now();
  auto next_poll = began + std::chrono::milliseconds(100);
  while (!ticket.done()) {
    const auto now = Clock::now();
    std::this_thread::sleep_for(
        std::clamp<Clock::duration>((now - began) / kPart, kShortest, kLongest));
    if (now < next_poll) continue;
    poll_caller();
    next_poll = now + std::chrono::milliseconds(100);
  }
}

}  // namespace trireme
