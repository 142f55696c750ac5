// A group whose members are processes, on CPUs.
#pragma once

#include <memory>

#include "comm/assembly.h"
#include "comm/group.h"

namespace trireme {

struct ProcessGroupOptions {
  AssemblyOptions who;
  // Ranks of one node, one after another: they reduce among themselves, and the first of each node
  // exchanges with those of the others. 0: everyone is connected to everyone.
  int per_node = 0;
  // Of a collective that names none of its own.
  std::chrono::milliseconds limit = std::chrono::minutes{30};
};

// Meets the other processes and connects them. An Error where they do not come, and in a build
// without Gloo.
std::unique_ptr<Group> make_process_group(const ProcessGroupOptions& options);

}  // namespace trireme
