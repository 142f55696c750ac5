#include "ir/schema.h"

namespace trireme {

void register_gru(Registry&) {}

}  // namespace trireme
