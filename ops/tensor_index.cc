#include "ir/schema.h"

namespace trireme {

void register_tensor_index(Registry&) {}

}  // namespace trireme
