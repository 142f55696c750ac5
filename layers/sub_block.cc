// Finds what a sub-block reads and writes across its border.
#include "layers/sub_block.h"

#include <algorithm>
#include <set>

#include "layers/defaults.h"

namespace trireme {
namespace {

void add_once(std::vector<std::string>& names, std::set<std::string>& seen,
              const std::string& name) {
  if (seen.insert(name).second) names.push_back(name);
}

// An op that runs a block lists what crosses that block's border among its own operands and
// results, so blocks further inside need no look: nested ones would be walked once for each block
// around.
struct Walk {
  const Block& outside;
  Crossing crossing;
  std::set<std::string> made, seen_read, seen_written;

  // A name of a block inside hides the same name outside: gradients of two branches, for instance.
  bool is_outer(const Block& block, const std::string& name) const {
    for (const Block* at = &block; at && at != &outside; at = at->parent()) {
      if (at->find_var(name)) return false;
    }
    return outside.find_var_recursive(name) != nullptr;
  }

  void run(const Block& block) {
    for (const Op* op : block.ops()) {
      for (const std::string& name : op->input_names()) {
        if (!made.contains(name) && is_outer(block, name)) {
          add_once(crossing.read, seen_read, name);
        }
      }
      for (const std::string& name : op->output_names()) {
        made.insert(name);
        if (is_outer(block, name)) add_once(crossing.written, seen_written, name);
      }
    }
  }
};

}  // namespace

void SubBlock::begin() {
  program_ = default_main_program().shared_from_this();
  block_ = program_->create_block().index();
}

void SubBlock::abandon() {
  if (block_ < 0) return;
  program_->set_current(program_->block(block_).parent_index());
  block_ = -1;
}

void SubBlock::run(const std::function<void()>& build) {
  begin();
  try {
    build();
  } catch (...) {
    abandon();
    throw;
  }
  complete();
}

Crossing crossing_of(const Block& block, const Block& outside,
                     const std::vector<std::string>& made) {
  Walk walk{.outside = outside,
            .crossing = {},
            .made = {made.begin(), made.end()},
            .seen_read = {},
            .seen_written = {}};
  walk.run(block);
  return walk.crossing;
}

}  // namespace trireme
