// Sequences of a batch ordered by length: what DynamicRNN steps through time by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/scope.h"

namespace trireme {

class RankTable : public HostObject {
 public:
  struct Item {
    int64_t index;  // of the sequence in the batch
    int64_t length;
  };
  // Sequences of one LoD level, longest first; equal lengths stay in order.
  RankTable(const Lod& lod, size_t level)
      : coarse(lod.begin(), lod.begin() + static_cast<std::ptrdiff_t>(level)) {
    const std::vector<int64_t>& offsets = lod[level];
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.push_back({static_cast<int64_t>(i), offsets[i + 1] - offsets[i]});
    }
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.length > b.length; });
  }

  int64_t longest() const { return items.empty() ? 0 : items.front().length; }
  // How many sequences have a step `t`: they are the first ones of the table.
  int64_t alive(int64_t t) const {
    return std::count_if(items.begin(), items.end(),
                         [t](const Item& item) { return item.length > t; });
  }
  std::string describe() const override {
    return "a rank table of " + std::to_string(items.size()) + " sequences";
  }

  Lod coarse;  // the levels above
  std::vector<Item> items;
};

}  // namespace trireme
