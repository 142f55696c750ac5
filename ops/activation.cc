#include "ir/schema.h"

namespace trireme {

void register_activation(Registry&) {}

}  // namespace trireme
