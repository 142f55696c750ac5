// A group whose members are replicas of this process: they add up each other's memory.
#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"

namespace trireme {

struct LocalGroupOptions {
  // ((a + b) + (c + d)) + ... instead of ((a + b) + c) + ...: the members' `out` is written to on
  // the way, whoever takes the result.
  bool tree = false;
  std::chrono::milliseconds limit = std::chrono::minutes{30};
};

// By rank. They may be used by fewer threads than there are members: nobody waits, and whoever asks
// a ticket that all have started does a part of the work. Results do not depend on who that is.
std::vector<std::unique_ptr<Group>> make_local_group(int size,
                                                     const LocalGroupOptions& options = {});

}  // namespace trireme
