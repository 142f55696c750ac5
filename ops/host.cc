#include "ir/schema.h"

namespace trireme {

void register_host(Registry&) {}

}  // namespace trireme
