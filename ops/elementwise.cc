#include "ir/schema.h"

namespace trireme {

void register_elementwise(Registry&) {}

}  // namespace trireme
