// Which variables of a block are still needed after each of its ops, sub-blocks included.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/program.h"

namespace trireme {

struct BlockLiveness {
  std::vector<bool> is_container;               // by op: it owns sub-blocks
  std::vector<std::vector<std::string>> dying;  // by op: needed up to it and not after it; sorted
  std::set<std::string> nested;                 // named by ops with sub-blocks, or inside these
  // Named by gradient blocks elsewhere, or by the op that owns this block: their names and values
  // must stay.
  std::set<std::string> kept;
  // Born by an op of this block; never dead while an op still names them.
  std::set<std::string> one_life;
};

// What nobody in the program reads after the last op counts as dead: fetches are the caller's.
BlockLiveness find_liveness(const Block& block);

}  // namespace trireme
