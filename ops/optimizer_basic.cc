#include "ir/schema.h"

namespace trireme {

void register_optimizer_basic(Registry&) {}

}  // namespace trireme
