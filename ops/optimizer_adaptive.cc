#include "ir/schema.h"

namespace trireme {

void register_optimizer_adaptive(Registry&) {}

}  // namespace trireme
