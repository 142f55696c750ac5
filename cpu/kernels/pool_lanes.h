// Pooling of float32 images whose channels stand side by side.
#pragma once

#include "ir/kernel.h"
#include "ops/nn/pool.h"

namespace trireme {

// Channels that stand side by side at each pixel are pooled together.
BoundKernel pool_lanes(const Pool& pool, bool max);
BoundKernel pool_lanes_grad(const KernelSite& site, const Pool& pool, bool max);

}  // namespace trireme
