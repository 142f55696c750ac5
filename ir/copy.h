// Copies parts of a program; clone and prune say which parts.
#pragma once

#include <memory>
#include <vector>

#include "ir/program.h"

namespace trireme {

// What to copy, by block of the original.
struct Selection {
  std::vector<std::vector<const Op*>> ops;
  std::vector<std::vector<const Var*>> vars;
};

Selection select_all(const Program& program);
// The variables that the selected ops name in slots and attributes, where those ops would find
// them; each block's in order of creation.
std::vector<std::vector<const Var*>> named_vars(const Program& program,
                                                const std::vector<std::vector<const Op*>>& ops);
// The blocks that an attribute refers to; none for most.
std::vector<int> blocks_in(const Attribute& value);
// Blocks keep their numbers; ops keep their lines. Roles, seed and file facts come along.
std::shared_ptr<Program> copy_selected(const Program& program, const Selection& selection);
// True in every is_test, and no ReserveSpace: what only training needs.
void set_is_test(Program& program);

}  // namespace trireme
