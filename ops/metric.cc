#include "ir/schema.h"

namespace trireme {

void register_metric(Registry&) {}

}  // namespace trireme
