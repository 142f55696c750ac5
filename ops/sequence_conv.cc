#include "ir/schema.h"

namespace trireme {

void register_sequence_conv(Registry&) {}

}  // namespace trireme
