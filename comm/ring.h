// A group of processes as a variable of a scope, and where ops and runs find it.
#pragma once

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

// Starts a collective and waits for its end; the caller may be interrupted meanwhile.
void run_collective(Ticket& ticket, const Exchanged& what);

}  // namespace trireme
