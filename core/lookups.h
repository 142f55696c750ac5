// Counts what is looked up by name: variables, rows, slots, attributes, feeds, flags, the
// environment. A steady step looks nothing up: tests hold it to that.
#pragma once

#include <cstddef>

namespace trireme {

void count_name_lookup();
size_t name_lookups();  // of the process, so far

}  // namespace trireme
