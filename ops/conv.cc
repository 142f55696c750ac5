#include "ir/schema.h"

namespace trireme {

void register_conv(Registry&) {}

}  // namespace trireme
