// UnitOrder: joins all that may be joined, and nothing else.
#include "compile/unit_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/random.h"

namespace trireme::testing {
namespace {

using Edges = std::vector<std::vector<int>>;

struct Numbers {
  Philox random;
  uint64_t drawn = 0;
  double below_one() { return random.uniform(drawn++); }
  int below(int end) { return static_cast<int>(below_one() * end); }
};

struct Drawn {
  Edges makers, readers;
};

Drawn drawn_graph(Numbers& numbers, int nodes, double per_node) {
  Drawn made{Edges(nodes), Edges(nodes)};
  for (int n = 1; n < nodes; ++n) {
    for (double left = per_node; left > numbers.below_one(); --left) {
      const int maker = numbers.below(n);
      made.makers[n].push_back(maker);
      made.readers[maker].push_back(n);
    }
  }
  return made;
}

// Whether a path leads from one unit to the other with another unit on it.
bool path_through_third(const UnitOrder& order, const Edges& readers, int from, int to) {
  std::set<int> seen;
  std::vector<int> open{from};
  while (!open.empty()) {
    const int unit = open.back();
    open.pop_back();
    for (const int n : order.nodes(unit)) {
      for (const int reader : readers[n]) {
        const int next = order.unit_of(reader);
        if (next == to && unit != from) return true;
        if (next != to && next != from && seen.insert(next).second) open.push_back(next);
      }
    }
  }
  return false;
}

TEST(UnitOrder, JoinsExactlyThoseWithoutAThirdBetweenThem) {
  Numbers numbers{Philox(7, 0)};
  int joined = 0, refused = 0;
  for (int round = 0; round < 200; ++round) {
    const int nodes = 4 + numbers.below(30);
    const Drawn graph = drawn_graph(numbers, nodes, 0.5 + 2 * numbers.below_one());
    UnitOrder order(graph.makers, graph.readers);
    for (int tried = 0; tried < 4 * nodes; ++tried) {
      const int a = order.unit_of(numbers.below(nodes));
      const int b = order.unit_of(numbers.below(nodes));
      if (a == b) continue;
      const bool third = path_through_third(order, graph.readers, a, b) ||
                         path_through_third(order, graph.readers, b, a);
      ASSERT_EQ(order.join(a, b), !third) << "round " << round;
      (third ? refused : joined) += 1;
      if (third) continue;
      ASSERT_TRUE(order.nodes(b).empty());
      ASSERT_TRUE(std::is_sorted(order.nodes(a).begin(), order.nodes(a).end()));
      for (const int n : order.nodes(a)) ASSERT_EQ(order.unit_of(n), a);
    }
  }
  EXPECT_GT(joined, 1000);
  EXPECT_GT(refused, 1000);
}

// d stands in two places: what reads its first node seems to come before what its second one reads.
TEST(UnitOrder, SeesPathsThroughUnitsThatStandApart) {
  //   0 -> 1 -> 4, 0 -> 3, 2 -> 3, 2 -> 4: with {0, 3} one unit, 1 needs 2.
  UnitOrder order({{}, {0}, {}, {0, 2}, {1, 2}}, {{1, 3}, {4}, {3, 4}, {}, {}});
  ASSERT_TRUE(order.join(0, 3));
  EXPECT_FALSE(order.join(2, 4));
}

TEST(UnitOrder, ManyUnitsFindRoomBehindOne) {
  constexpr int kNodes = 3000;
  Edges makers(kNodes), readers(kNodes);
  for (int n = 2; n < kNodes; ++n) {  // all need node 0; node 1 joins them one after another
    makers[n].push_back(0);
    readers[0].push_back(n);
  }
  UnitOrder order(makers, readers);
  for (int n = kNodes - 1; n > 1; --n) ASSERT_TRUE(order.join(1, order.unit_of(n)));
  EXPECT_EQ(order.nodes(1).size(), static_cast<size_t>(kNodes - 1));
}

}  // namespace
}  // namespace trireme::testing
