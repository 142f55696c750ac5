#include "ir/schema.h"

namespace trireme {

void register_math(Registry&) {}

}  // namespace trireme
