// Results that are their operand under another shape: they share its place instead of copying it.
#pragma once

#include <vector>

#include "compile/plan.h"

namespace trireme {

// Whether the node gives its first operand's elements in the same order when there are as many of
// them and they have the same type: renamed dimensions, and sums and repetitions of nothing.
bool renames(const Node& node);

// By slot: the slot whose place in the arena it takes; itself where it has one of its own. Only
// among slots that are written once and live within the segment. `facts`: by value, all known.
std::vector<int> places_in_segment(const Plan& plan, int segment,
                                   const std::vector<ValueInfo>& facts);

}  // namespace trireme
