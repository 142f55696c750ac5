// Several bound kernels as one, whose parts cover all of them.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/kernel.h"

namespace trireme {

struct GroupMember {
  BoundKernel kernel;
  std::vector<Variable*> ins, outs;
  size_t bytes = 0;  // that it touches
  bool cut = false;  // into its kernel's parts; else it runs whole, as it would alone
  std::function<void(Error&)> explain;  // says that an error is this member's
};

// Every member computes what it computes alone: its kernel is called for the same parts. A part of
// the whole is a stretch of those calls, as long in bytes as any other.
BoundKernel grouped(std::vector<GroupMember> members);

}  // namespace trireme
