// Names that memory_optimize let variables share. A server has other variables than the program it
// was made from, so ops that move there get their own back.
#pragma once

#include <set>
#include <string>

#include "ir/program.h"

namespace trireme {

// Names of the global block that more than one variable has.
std::set<std::string> shared_names(const Program& program);
// Ops of the global block that compute rates, clip and update name their own variables again.
void give_back_names(Program& program);

}  // namespace trireme
