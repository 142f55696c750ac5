// Results that take the place of an operand: those that are their operand under another shape, and
// those that are written over one that nobody reads any more.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compile/plan.h"

namespace trireme {

// The operand and the result, by position, of a node whose row says that it renames: dimensions
// under other names, or sums and repetitions of nothing.
std::optional<std::pair<int, int>> renamed(const Node& node);

// By slot: the slot whose place in the arena it takes; itself where it has one of its own. Only
// among slots that live within the segment. `facts`: by value, all known.
std::vector<int> places_in_segment(const Plan& plan, int segment,
                                   const std::vector<ValueInfo>& facts);

// Shares no code with places_in_segment: replays the segment and throws an InternalError where a
// place does not hold what is read there.
void check_places(const Plan& plan, int segment, const std::vector<int>& places);

}  // namespace trireme
