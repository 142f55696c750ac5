#include "ir/schema.h"

namespace trireme {

void register_reduce(Registry&) {}

}  // namespace trireme
