// Half-precision operands of rows that have no kernel for them: a float32 kernel computes, between
// operands widened before it and results rounded after it, on the host or on a device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile/graph.h"
#include "core/place.h"
#include "ir/kernel.h"

namespace trireme {

// `facts` are those of the whole graph; the kernels are those of `place`'s device. Nothing when no
// operand is half, when one is no dense tensor, or when no kernel takes float32 either (why is
// added to `refusals`).
std::optional<BoundKernel> bind_in_float(const Node& node, std::vector<ValueInfo*> facts,
                                         const Place& place, std::vector<std::string>& refusals);

}  // namespace trireme
