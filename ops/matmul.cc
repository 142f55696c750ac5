#include "ir/schema.h"

namespace trireme {

void register_matmul(Registry&) {}

}  // namespace trireme
