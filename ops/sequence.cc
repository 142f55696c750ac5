#include "ir/schema.h"

namespace trireme {

void register_sequence(Registry&) {}

}  // namespace trireme
