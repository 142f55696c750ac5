// The replicas of this process, joined with those of other processes.
#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"

namespace trireme {

// `here`: a local group; `others`: this process's place among the processes, each of which has as
// many replicas. A member's rank() is the one in this process, with whose other members it shares
// memory; size() counts the members of all processes. What is gathered comes in the order of the
// processes. Roots are members of this process, and the first: who takes a sum in one process has
// it in all.
std::vector<std::unique_ptr<Group>> join_groups(std::vector<std::unique_ptr<Group>> here,
                                                const std::shared_ptr<Group>& others);

}  // namespace trireme
