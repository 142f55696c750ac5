#include "ir/schema.h"

namespace trireme {

void register_dropout(Registry&) {}

}  // namespace trireme
