// The counter behind count_name_lookup.
#include "core/lookups.h"

#include <atomic>

namespace trireme {
namespace {

std::atomic<size_t> lookups_so_far{0};

}  // namespace

void count_name_lookup() { lookups_so_far.fetch_add(1, std::memory_order_relaxed); }
size_t name_lookups() { return lookups_so_far.load(std::memory_order_relaxed); }

}  // namespace trireme
