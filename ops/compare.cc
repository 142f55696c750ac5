#include "ir/schema.h"

namespace trireme {

void register_compare(Registry&) {}

}  // namespace trireme
