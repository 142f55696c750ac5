#include "ir/schema.h"

namespace trireme {

void register_random(Registry&) {}

}  // namespace trireme
