#include "ir/schema.h"

namespace trireme {

void register_lstm(Registry&) {}

}  // namespace trireme
