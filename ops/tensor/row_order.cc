// Finds the rows within a range, and those named repeatedly, without asking for memory each time.
#include "ops/tensor/row_order.h"

#include <bit>

#include "core/error.h"

namespace trireme {

std::span<const PlacedRow> named_within(const SelectedRows& grad,
                                        std::pair<int64_t, int64_t> range) {
  thread_local std::vector<PlacedRow> memory;
  const auto count = static_cast<int64_t>(grad.rows.size());
  // One more: each is written and then counted if it is inside, without a branch.
  if (memory.size() <= grad.rows.size()) memory.resize(grad.rows.size() + 1);
  PlacedRow* to = memory.data();
  const auto width = static_cast<uint64_t>(range.second - range.first);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = grad.rows[static_cast<size_t>(i)];
    *to = {row, i};
    to += static_cast<uint64_t>(row - range.first) < width;
  }
  return {memory.data(), to};
}

RowChains chains_of(std::span<const PlacedRow> named, size_t most) {
  thread_local std::vector<int64_t> next, last;
  thread_local std::vector<int32_t> table;
  thread_local std::vector<uint8_t> first;
  promise(most < size_t{1} << 29, "so many rows do not fit into memory");
  const auto slots_for = [](size_t count) { return std::bit_ceil(4 * count + 1); };
  const size_t slots = slots_for(named.size());  // so many that most rows are found at once
  if (next.size() < most) {
    next.resize(most);
    last.resize(most);
    first.resize(most);
    table.resize(slots_for(most));
  }
  // Open addressing: a slot has the number of the first that names a row.
  std::fill_n(table.begin(), slots, -1);
  const int shift = 64 - std::countr_zero(slots);
  for (size_t i = 0; i < named.size(); ++i) {
    const auto row = static_cast<uint64_t>(named[i].row);
    size_t slot = (row * 0x9E3779B97F4A7C15u) >> shift;
    while (table[slot] >= 0 && named[static_cast<size_t>(table[slot])].row != named[i].row) {
      slot = (slot + 1) & (slots - 1);
    }
    const auto number = static_cast<int64_t>(i);
    next[i] = -1;
    first[i] = table[slot] < 0;
    if (first[i]) {
      table[slot] = static_cast<int32_t>(i);
      last[i] = number;
      continue;
    }
    const auto head = static_cast<size_t>(table[slot]);
    next[static_cast<size_t>(last[head])] = number;
    last[head] = number;
  }
  return {{next.data(), named.size()}, {first.data(), named.size()}};
}

}  // namespace trireme
