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

// Segments that are bound together.
struct Stretch {
  int begin = 0, end = 0;
};

// By slot: the slot whose place in the arena it takes; itself where it has one of its own. Only
// among slots that live within the stretch. `facts`: by value, all known.
std::vector<int> places_within(const Plan& plan, Stretch stretch,
                               const std::vector<ValueInfo>& facts);

// Shares no code with places_within: replays the stretch and throws an InternalError where a place
// does not hold what is read there.
void check_places(const Plan& plan, Stretch stretch, const std::vector<int>& places);

}  // namespace trireme
