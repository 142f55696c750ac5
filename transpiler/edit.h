// Small edits of programs that transpilers share.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace trireme {

// Inserts an op with its row's defaults and this role. Nothing is inferred: whoever inserts has
// declared the outputs.
Op& insert_filled(Block& block, size_t index, OpSpec spec, int role, const SourceLine& line = {});
Op& append_filled(Block& block, OpSpec spec, int role, const SourceLine& line = {});
void remove_ops(Block& block, const std::vector<const Op*>& ops);
// The last op of the block that writes `name`; -1: none does.
int find_writer(const Block& block, const std::string& name);
// A copy of the variable, under another name where one is given; the same one if it is there.
Var& clone_var(Block& to, const Var& var, const std::string& name = {},
               const Shape* shape = nullptr);
// A variable that only orders ops: __control_var@<n>.
std::string add_control_var(Block& block);

}  // namespace trireme
