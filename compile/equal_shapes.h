// Which values have equal shapes, whatever extents they turn out to have.
#pragma once

#include <vector>

#include "compile/graph.h"

namespace trireme {

// An extent that is not known while compiling is most often the batch's. It is followed from
// operand to result through ops that leave the first dimension alone.
class EqualShapes {
 public:
  explicit EqualShapes(const Graph& graph);

  // False also where it cannot be told.
  bool same(int a, int b) const;

 private:
  int first_of(const Node& node, size_t result) const;

  const Graph& graph_;
  std::vector<int> first_;  // by value: another value whose first extent it has
};

}  // namespace trireme
