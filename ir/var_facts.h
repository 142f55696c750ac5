// What a program declares of a variable, as shape rules see it.
#pragma once

#include "ir/op_view.h"

namespace trireme {

// A SelectedRows variable states its full shape; rules see the rows that are there, and the height.
ValueInfo facts_of(const Var& var);

}  // namespace trireme
