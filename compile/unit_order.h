// Nodes that become units one by one, in an order in which operands come first.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace trireme {

// Two units may become one when no path leads from one to the other through a third, which would
// have to wait for itself. Whatever lies on such a path stands between the two in the order, so it
// is looked for there alone, from both ends at once: the search ends with the shorter of the two.
// What the ended search has seen then moves past the other end, which keeps the order one.
class UnitOrder {
 public:
  // By node: those that make its operands, each before it, and those that read its results.
  UnitOrder(std::vector<std::vector<int>> makers, std::vector<std::vector<int>> readers);

  // A unit has the number of one of its nodes.
  int unit_of(int node) const { return unit_of_[static_cast<size_t>(node)]; }
  // In order; none once the unit has become part of another.
  const std::vector<int>& nodes(int unit) const { return nodes_[static_cast<size_t>(unit)]; }
  // Makes b a part of a. Changes nothing and is false where a path leads through a third.
  bool join(int a, int b);

 private:
  class Search;
  void place_between(int64_t after, std::vector<int> units);
  void spread();
  void put(int unit, int64_t position);

  std::vector<std::vector<int>> makers_, readers_;  // by node
  std::vector<int> unit_of_;                        // by node
  std::vector<std::vector<int>> nodes_;             // by unit
  std::vector<int64_t> position_;                   // by unit
  std::map<int64_t, int> at_;                       // the unit at a position
  std::vector<int> seen_;                           // by unit: the search that came by last
  int searches_ = 0;
};

}  // namespace trireme
