#include "ir/schema.h"

namespace trireme {

void register_control(Registry&) {}

}  // namespace trireme
