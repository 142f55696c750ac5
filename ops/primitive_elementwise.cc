#include "ir/schema.h"

namespace trireme {

void register_primitive_elementwise(Registry&) {}

}  // namespace trireme
