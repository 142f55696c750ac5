// Operands of a node that are read when its plan is bound: their contents decide shapes, or which
// elements a kernel works on.
#pragma once

#include <vector>

#include "compile/graph.h"

namespace trireme {

// Positions among the node's operands, of those that are there.
std::vector<int> value_operands(const Node& node);

}  // namespace trireme
