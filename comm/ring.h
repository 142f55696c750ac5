// A group of processes as a variable of a scope, and where ops and runs find it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/group.h"
#include "core/scope.h"

namespace trireme {

class Ring final : public HostObject {
 public:
  Ring(std::shared_ptr<Group> group, std::vector<std::string> endpoints)
      : group(std::move(group)), endpoints(std::move(endpoints)) {}
  std::string describe() const override;

  const std::shared_ptr<Group> group;
  const std::vector<std::string> endpoints;  // by rank
};

inline constexpr const char* kProcessesName = "NCCLID";  // of an nccl2 program's startup
std::string ring_name(int ring_id);

// The ring that a startup program has left in the scope; an Error that says which program has to
// run first.
std::shared_ptr<Ring> find_ring(const Scope& scope, const std::string& name);

// The pauses of who waits for others. They grow with the time that has passed: what is asked too
// late is a small part of the whole.
class Pauses {
 public:
  void pause();
  bool is_time_to_poll();  // about every 100 ms

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point next_poll_ = began_ + std::chrono::milliseconds(100);
};

// Starts a collective and waits for its end; the caller may be interrupted meanwhile.
void run_collective(Ticket& ticket, const Exchanged& what);

}  // namespace trireme
