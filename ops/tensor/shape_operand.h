// The shape a user asks for: in tensors computed by the program, or in the `shape` attribute.
#pragma once

#include "ir/op_view.h"

namespace trireme {

// ShapeTensor (one tensor of extents), else ShapeTensorList (one tensor per extent), else the
// attribute. While a program is built tensors have no values yet: their extents are unknown.
// Rows that use this name both slots in OpTraits::reads_values.
Shape shape_operand(const OpView& op);

}  // namespace trireme
