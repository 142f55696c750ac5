// First fit of intervals into one arena, in several orders, and the check of the result.
#include "compile/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

bool meet(const Interval& a, const Interval& b) { return a.first <= b.last && b.first <= a.last; }

struct Peak {
  size_t bytes = 0;  // of the values alive there
  int at = 0;        // instruction
};

Peak peak_of(const std::vector<Interval>& intervals) {
  std::map<int, int64_t> change;  // by instruction
  for (const Interval& interval : intervals) {
    change[interval.first] += static_cast<int64_t>(arena_aligned(interval.bytes));
    change[interval.last + 1] -= static_cast<int64_t>(arena_aligned(interval.bytes));
  }
  Peak peak;
  int64_t live = 0;
  for (const auto& [at, bytes] : change) {
    live += bytes;
    if (live > static_cast<int64_t>(peak.bytes)) peak = {static_cast<size_t>(live), at};
  }
  return peak;
}

// One after the other, each at the lowest gap that it fits in.
MemoryPlan placed_in(const std::vector<size_t>& order, const std::vector<Interval>& intervals) {
  MemoryPlan plan;
  plan.offsets.assign(intervals.size(), 0);
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const size_t bytes = arena_aligned(std::max<size_t>(intervals[i].bytes, 1));
    size_t offset = 0;
    for (size_t other : placed) {
      if (!meet(intervals[i], intervals[other])) continue;
      if (plan.offsets[other] >= offset + bytes) break;  // the gap before it is wide enough
      offset = std::max(
          offset, plan.offsets[other] + arena_aligned(std::max<size_t>(intervals[other].bytes, 1)));
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

}  // namespace

size_t most_alive(const std::vector<Interval>& intervals) { return peak_of(intervals).bytes; }

MemoryPlan plan_memory(const std::vector<Interval>& intervals) {
  const Peak peak = peak_of(intervals);
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  MemoryPlan best;
  // Mostly the first order leaves nothing to gain.
  const auto attempt = [&](const auto& before) {
    if (best.arena_bytes > 0 && best.arena_bytes <= peak.bytes + peak.bytes / 64) return;
    std::stable_sort(order.begin(), order.end(), before);
    MemoryPlan made = placed_in(order, intervals);
    if (best.arena_bytes == 0 || made.arena_bytes < best.arena_bytes) best = std::move(made);
  };
  const auto larger = [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; };
  const auto at_peak = [&](size_t i) {
    return intervals[i].first <= peak.at && peak.at <= intervals[i].last;
  };
  const auto life = [&](size_t i) { return intervals[i].last - intervals[i].first; };
  attempt(larger);
  attempt([&](size_t a, size_t b) { return at_peak(a) && !at_peak(b); });  // among them, as before
  attempt([&](size_t a, size_t b) { return life(a) > life(b); });
  attempt([&](size_t a, size_t b) { return intervals[a].first < intervals[b].first; });
  best.live_bytes = peak.bytes;
  return best;
}

void check_memory(const std::vector<Interval>& intervals, const MemoryPlan& plan) {
  std::vector<size_t> starts, ends;
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].bytes > 0) starts.push_back(i);
    if (plan.offsets[i] + intervals[i].bytes > plan.arena_bytes) {
      throw InternalError(cat("value ", i, " ends beyond the arena"));
    }
  }
  ends = starts;
  std::ranges::stable_sort(starts, {}, [&](size_t i) { return intervals[i].first; });
  std::ranges::stable_sort(ends, {}, [&](size_t i) { return intervals[i].last; });
  // Sweep over the instructions; those alive at one instruction, by offset, may not touch.
  std::map<size_t, size_t> alive;  // offset -> interval
  size_t ended = 0;                // of `ends`: no longer alive
  for (size_t i : starts) {
    while (ended < ends.size() && intervals[ends[ended]].last < intervals[i].first)
      alive.erase(plan.offsets[ends[ended++]]);
    const auto after = alive.lower_bound(plan.offsets[i]);
    if (after != alive.end() && after->first < plan.offsets[i] + intervals[i].bytes) {
      throw InternalError(cat("values ", i, " and ", after->second, " overlap in the arena"));
    }
    if (after != alive.begin()) {
      const auto before = std::prev(after);
      if (before->first + intervals[before->second].bytes > plan.offsets[i]) {
        throw InternalError(cat("values ", i, " and ", before->second, " overlap in the arena"));
      }
    }
    alive.emplace(plan.offsets[i], i);
  }
}

}  // namespace trireme
