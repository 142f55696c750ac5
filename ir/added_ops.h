// Ops that a program brings along: their rows join the table before it is first used.
#pragma once

#include <functional>

#include "ir/schema.h"

namespace trireme {

// `add` is called once, after the engine's own rows are there: it may add rows, and kernels to
// those rows (Registry::add_kernels). An Error where the table has been asked for already, since
// plans may have been made of it; call it before any program is built.
void add_ops(std::function<void(Registry&)> add);

}  // namespace trireme
