#include "ops/row_order.h"

#include <bit>

namespace trireme {

std::span<const PlacedRow> named_within(const SelectedRows& grad,
                                        std::pair<int64_t, int64_t> range) {
  thread_local std::vector<PlacedRow> memory;
  const auto count = static_cast<int64_t>(grad.rows.size());
  // One more: each is written and then counted if it is inside, without a branch.
  if (memory.size() <= grad.rows.size()) memory.resize(grad.rows.size() + 1);
  PlacedRow* to = memory.data();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = grad.rows[static_cast<size_t>(i)];
    *to = {row, i};
    to += row >= range.first && row < range.second;
  }
  return {memory.data(), to};
}

RowChains chains_of(std::span<const PlacedRow> named) {
  thread_local std::vector<int64_t> next, last, table;
  thread_local std::vector<uint8_t> first;
  const size_t slots = std::bit_ceil(2 * named.size() + 1);
  if (next.size() < named.size()) {
    next.resize(named.size());
    last.resize(named.size());
    first.resize(named.size());
  }
  if (table.size() < slots) table.resize(slots);
  // Open addressing: a slot has the number of the first that names a row.
  std::fill_n(table.begin(), slots, int64_t{-1});
  int64_t longer = 0;
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
      table[slot] = number;
      last[i] = number;
      continue;
    }
    const auto head = static_cast<size_t>(table[slot]);
    longer += next[head] < 0;
    next[static_cast<size_t>(last[head])] = number;
    last[head] = number;
  }
  return {{next.data(), named.size()}, {first.data(), named.size()}, longer};
}

}  // namespace trireme
