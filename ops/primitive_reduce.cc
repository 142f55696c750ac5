#include "ir/schema.h"

namespace trireme {

void register_primitive_reduce(Registry&) {}

}  // namespace trireme
