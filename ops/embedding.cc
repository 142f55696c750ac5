#include "ir/schema.h"

namespace trireme {

void register_embedding(Registry&) {}

}  // namespace trireme
