// First fit of intervals into one arena, in several orders, a sweep for very many, and the check
// of the result.
#include "compile/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

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

// Free ranges of an arena that grows at its end.
class FreeRanges {
 public:
  // The narrowest range that is wide enough, among equals the lowest; else new memory.
  size_t take(size_t bytes) {
    const auto found = by_width_.lower_bound({bytes, 0});
    if (found == by_width_.end()) return grow(bytes);
    const auto [width, offset] = *found;
    remove(offset, width);
    if (width > bytes) insert(offset + bytes, width - bytes);
    return offset;
  }

  // Ranges that touch become one.
  void give_back(size_t offset, size_t bytes) {
    const auto after = by_offset_.lower_bound(offset);
    size_t begin = offset, end = offset + bytes;
    if (after != by_offset_.end() && after->first == end) {
      end += after->second;
      remove(after->first, after->second);
    }
    const auto behind = by_offset_.lower_bound(offset);
    if (behind != by_offset_.begin()) {
      const auto [at, width] = *std::prev(behind);
      if (at + width == offset) {
        begin = at;
        remove(at, width);
      }
    }
    insert(begin, end - begin);
  }

  size_t end() const { return end_; }

 private:
  // A free range at the end becomes part of it.
  size_t grow(size_t bytes) {
    size_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [at, width] = *by_offset_.rbegin();
      if (at + width == end_) {
        offset = at;
        remove(at, width);
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void insert(size_t offset, size_t width) {
    by_offset_.emplace(offset, width);
    by_width_.emplace(width, offset);
  }
  void remove(size_t offset, size_t width) {
    by_offset_.erase(offset);
    by_width_.erase({width, offset});
  }

  std::map<size_t, size_t> by_offset_;            // width, by offset
  std::set<std::pair<size_t, size_t>> by_width_;  // (width, offset)
  size_t end_ = 0;
};

// In the order of time, or backwards: what ends gives its range back, what begins takes one.
MemoryPlan swept(const std::vector<Interval>& intervals, bool backwards) {
  const auto begins = [&](size_t i) {
    return backwards ? -int64_t{intervals[i].last} : int64_t{intervals[i].first};
  };
  const auto ends = [&](size_t i) {
    return backwards ? -int64_t{intervals[i].first} : int64_t{intervals[i].last};
  };
  std::vector<size_t> starting(intervals.size());
  std::iota(starting.begin(), starting.end(), size_t{0});
  std::vector<size_t> ending = starting;
  std::ranges::stable_sort(starting, {}, begins);
  std::ranges::stable_sort(ending, {}, ends);
  const auto width = [&](size_t i) {
    return arena_aligned(std::max<size_t>(intervals[i].bytes, 1));
  };
  MemoryPlan plan;
  plan.offsets.assign(intervals.size(), 0);
  FreeRanges free;
  size_t ended = 0;
  for (size_t i : starting) {
    for (; ends(ending[ended]) < begins(i); ++ended) {
      free.give_back(plan.offsets[ending[ended]], width(ending[ended]));
    }
    plan.offsets[i] = free.take(width(i));
  }
  plan.arena_bytes = free.end();
  return plan;
}

// Placing one after the other compares all with all. Beyond this many a sweep over time, which is
// a little less tight, takes its place.
constexpr size_t kMostPlacedOneByOne = 8192;

}  // namespace

size_t most_alive(const std::vector<Interval>& intervals) { return peak_of(intervals).bytes; }

MemoryPlan plan_memory(const std::vector<Interval>& intervals) {
  const Peak peak = peak_of(intervals);
  if (intervals.size() > kMostPlacedOneByOne) {
    MemoryPlan forwards = swept(intervals, false), backwards = swept(intervals, true);
    MemoryPlan& better = backwards.arena_bytes < forwards.arena_bytes ? backwards : forwards;
    better.live_bytes = peak.bytes;
    return better;
  }
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
