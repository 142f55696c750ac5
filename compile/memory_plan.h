// Places values in one arena: two that live at the same time never share a byte.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme {

// A value's bytes and the instructions, both included, between which it must keep them.
struct Interval {
  size_t bytes = 0;
  int first = 0;
  int last = 0;
};

inline constexpr size_t kArenaAlignment = 64;
inline size_t arena_aligned(size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

struct MemoryPlan {
  std::vector<size_t> offsets;  // by interval
  size_t arena_bytes = 0;
  size_t live_bytes = 0;  // the most that lives at one instruction: no plan can need less
};

// Each at the lowest gap it fits in: largest first, or in other orders where that wastes memory.
// Offsets are multiples of kArenaAlignment.
MemoryPlan plan_memory(const std::vector<Interval>& intervals);

// The most bytes that live at one instruction.
size_t most_alive(const std::vector<Interval>& intervals);

// Shares no code with plan_memory. An InternalError names two that overlap.
void check_memory(const std::vector<Interval>& intervals, const MemoryPlan& plan);

}  // namespace trireme
