#include "ir/schema.h"

namespace trireme {

void register_average(Registry&) {}

}  // namespace trireme
