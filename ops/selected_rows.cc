#include "ir/schema.h"

namespace trireme {

void register_selected_rows(Registry&) {}

}  // namespace trireme
