#include "ir/schema.h"

namespace trireme {

void register_pool(Registry&) {}

}  // namespace trireme
