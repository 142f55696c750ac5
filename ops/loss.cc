#include "ir/schema.h"

namespace trireme {

void register_loss(Registry&) {}

}  // namespace trireme
