// Gradients of gradients under the original's names: the rules that append them.
#pragma once

#include "ir/schema.h"

namespace trireme {

// Appends `row` itself, of what arrives at the gradient of its first input.
GradRule itself_as_second_gradient(const OpSchema& row);

}  // namespace trireme
