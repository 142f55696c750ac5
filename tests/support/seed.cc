// Reads the seed from the environment, or draws one and prints it.
#include "tests/support/seed.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace trireme::testing {

uint64_t test_seed() {
  static const uint64_t value = [] {
    const char* given = std::getenv("TRIREME_TEST_SEED");
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    const auto seed = given ? std::strtoull(given, nullptr, 10)
                            : static_cast<unsigned long long>(now % 1000000007);
    std::printf("seed %llu (repeat with TRIREME_TEST_SEED)\n", seed);
    std::fflush(stdout);  // a crash must not swallow it
    return seed;
  }();
  return value;
}

}  // namespace trireme::testing
