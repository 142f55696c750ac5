// Programs that serve others until these have left. Defined in ps/, which stands above.
#pragma once

#include <functional>

#include "core/scope.h"
#include "ir/program.h"

namespace trireme {

// Whether the program is one whose run serves parameters.
bool serves(const Program& program);
// Runs it: returns when all trainers have left. Its updates are programs of their own on `scope`.
void serve(const Program& program, Scope& scope, const std::function<void()>& poll);

}  // namespace trireme
