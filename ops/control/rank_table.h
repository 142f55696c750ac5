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
  // Orders the sequences of one LoD level, longest first; equal lengths stay in order.
  void order(const Lod& lod, size_t level) {
    const std::vector<int64_t>& offsets = lod[level];
    levels.assign(lod.begin(), lod.begin() + static_cast<std::ptrdiff_t>(level) + 1);
    items.clear();
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.push_back({static_cast<int64_t>(i), offsets[i + 1] - offsets[i]});
    }
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return a.length != b.length ? a.length > b.length : a.index < b.index;
    });
    place.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      place[static_cast<size_t>(items[i].index)] = static_cast<int64_t>(i);
    }
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

  size_t level() const { return levels.size() - 1; }
  Lod levels;  // of the batch, down to the one that is ordered
  std::vector<Item> items;
  std::vector<int64_t> place;  // by sequence of the batch: where in items it is
};

}  // namespace trireme
