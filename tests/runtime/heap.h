// What C++ code of the test program asks of the heap: every form of operator new is counted. What
// oneDNN asks for while it executes a primitive is its own affair and left out.
#pragma once

#include <cstddef>

namespace trireme::testing {

size_t heap_calls();        // since the program began
size_t live_heap_blocks();  // not given back yet

}  // namespace trireme::testing
