// How much an instruction has to do at least: what floors of its time are made of.
#pragma once

#include <vector>

#include "compile/graph.h"

namespace trireme {

// Multiplications with an addition each, of a matrix product, a convolution and their gradients, as
// the usual way to compute them does; 0 where they are not what takes the time, or not known.
double products_of(const Node& node, const std::vector<ValueInfo*>& facts);

}  // namespace trireme
