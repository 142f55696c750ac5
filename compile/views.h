// Aliases: results that are their operand under another shape, and those that are written over one
// that nobody reads any more.
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

// By slot: its alias root, the slot whose memory in the arena it takes; itself where it has memory
// of its own. Only among slots that live within the stretch. `facts`: by value, all known.
std::vector<int> alias_roots(const Plan& plan, Stretch stretch,
                             const std::vector<ValueInfo>& facts);

// Shares no code with alias_roots: replays the stretch and throws an InternalError where a root
// does not hold what is read there.
void check_aliases(const Plan& plan, Stretch stretch, const std::vector<int>& roots);

}  // namespace trireme
