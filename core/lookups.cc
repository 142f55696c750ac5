// The counters behind count_name_lookup: one per thread, so that counting costs next to nothing.
#include "core/lookups.h"

#include <atomic>
#include <mutex>
#include <set>

namespace trireme {
namespace {

struct LookupCounts {
  std::mutex mutex;
  std::set<const std::atomic<size_t>*> running;
  size_t ended = 0;  // of threads that are no more
};

// Threads end after statics do: this one stays.
LookupCounts& lookup_counts() {
  static auto* counts = new LookupCounts;
  return *counts;
}

struct ThreadLookups {
  ThreadLookups() {
    const std::lock_guard lock(lookup_counts().mutex);
    lookup_counts().running.insert(&count);
  }
  ~ThreadLookups() {
    const std::lock_guard lock(lookup_counts().mutex);
    lookup_counts().running.erase(&count);
    lookup_counts().ended += count.load(std::memory_order_relaxed);
  }
  std::atomic<size_t> count{0};  // only its thread writes
};

}  // namespace

void count_name_lookup() {
  static thread_local ThreadLookups mine;
  mine.count.store(mine.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

size_t name_lookups() {
  const std::lock_guard lock(lookup_counts().mutex);
  size_t sum = lookup_counts().ended;
  for (const auto* count : lookup_counts().running) sum += count->load(std::memory_order_relaxed);
  return sum;
}

}  // namespace trireme
