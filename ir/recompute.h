// Checkpoints: forward ops that are run again before their gradients, so that less is kept
// meanwhile.
#pragma once

#include <string>
#include <vector>

#include "ir/grad_ops.h"

namespace trireme {

// Adds the gradients of `path`, last op first. Between two checkpoints the forward ops are repeated
// under other names just before their gradient ops, which read those.
void differentiate_with_checkpoints(GradList& gradients, Block& block, const std::vector<Op*>& path,
                                    const std::vector<std::string>& checkpoints);

}  // namespace trireme
