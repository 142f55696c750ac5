// Which rows SelectedRows name, and where: in order, within a range, and those named repeatedly.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <utility>
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

// Those in [first, last), in the order in which they are named. In memory of the calling thread,
// kept between calls: a steady step asks for none.
std::span<const PlacedRow> named_within(const SelectedRows& rows,
                                        std::pair<int64_t, int64_t> range);

// By number in `named`: the next that names the same row, or -1, and whether none before it does.
// Memory as above, enough for `most` at once: which part a thread gets changes from step to step.
struct RowChains {
  std::span<const int64_t> next;
  std::span<const uint8_t> first;
};
RowChains chains_of(std::span<const PlacedRow> named, size_t most);

}  // namespace trireme
