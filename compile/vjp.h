// Gradients of bodies: the forward body written again, then walked backwards by its primitives'
// rules.
#pragma once

#include <vector>

#include "compile/graph.h"

namespace trireme {

// Lowers a generated gradient op that has no rule of its own. `view` and `ins` are the gradient
// op's; the result has one value per output position, -1 where none is wanted.
std::vector<int> lower_by_vjp(Graph& graph, const OpView& view, const std::vector<int>& ins);

}  // namespace trireme
