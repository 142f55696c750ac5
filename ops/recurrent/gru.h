// What gru and gru_unit ask of their operands.
#pragma once

#include "ir/op_view.h"

namespace trireme {

// D, after checking Input [n, 3D], Weight [D, 3D] and Bias [1, 3D].
Dim gru_width(const OpView& op);

}  // namespace trireme
