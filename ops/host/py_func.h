// Callables that the py_func op runs: Python functions, or any function of this process.
#pragma once

#include <functional>
#include <vector>

#include "core/scope.h"

namespace trireme {

// Reads the inputs and fills the outputs. Null stands for an operand that is not there: a gradient
// nobody made, or one nobody wants.
using PyFunc = std::function<void(const std::vector<const Variable*>& ins,
                                  const std::vector<Variable*>& outs)>;

// A number for the op's attributes, valid in this process until it ends.
int register_py_func(PyFunc function);

}  // namespace trireme
