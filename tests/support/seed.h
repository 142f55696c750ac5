// The seed of tests that draw what they test.
#pragma once

#include <cstdint>

namespace trireme::testing {

// TRIREME_TEST_SEED where it is set, else another one in every run. The first call prints it.
uint64_t test_seed();

}  // namespace trireme::testing
