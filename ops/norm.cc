#include "ir/schema.h"

namespace trireme {

void register_norm(Registry&) {}

}  // namespace trireme
