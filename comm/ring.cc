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

void Pauses::pause() {
  constexpr std::chrono::microseconds kShortest{20}, kLongest{1000};
  constexpr int kPart = 64;
  std::this_thread::sleep_for(
      std::clamp<Clock::duration>((Clock::now() - began_) / kPart, kShortest, kLongest));
}

bool Pauses::is_time_to_poll() {
  const auto now = Clock::now();
  if (now < next_poll_) return false;
  next_poll_ = now + std::chrono::milliseconds(100);
  return true;
}

void run_collective(Ticket& ticket, const Exchanged& what) {
  ticket.start(what);
  for (Pauses pauses; !ticket.done(); pauses.pause()) {
    if (pauses.is_time_to_poll()) poll_caller();
  }
}

}  // namespace trireme
