// SelectedRows in the order of the rows that they name.
#pragma once

#include <algorithm>
#include <compare>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace trireme {

struct PlacedRow {
  int64_t row;
  int64_t place;  // in `rows` and in `value`
  auto operator<=>(const PlacedRow&) const = default;
};

// Calls f(places of one row) for every row that is named, ascending; its places are in the order in
// which it is named. They are the calling thread's, kept between calls: a steady step asks for no
// memory.
template <class F>
void for_each_distinct_row(const SelectedRows& rows, F f) {
  thread_local std::vector<PlacedRow> order;
  order.clear();
  for (const int64_t row : rows.rows) order.push_back({row, static_cast<int64_t>(order.size())});
  std::sort(order.begin(), order.end());
  for (auto first = order.cbegin(); first != order.cend();) {
    const auto last = std::find_if(first, order.cend(),
                                   [&](const PlacedRow& other) { return other.row != first->row; });
    f(std::span<const PlacedRow>(first, last));
    first = last;
  }
}

}  // namespace trireme
