#include "ir/schema.h"

namespace trireme {

void register_fill(Registry&) {}

}  // namespace trireme
