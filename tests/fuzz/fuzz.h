// What a fuzz program gives: the function that takes one input, and valid inputs to start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::testing {
std::vector<std::string> fuzz_seeds();
inline uint64_t accepted_inputs = 0;  // those that were not refused
}  // namespace trireme::testing

// Returns for every input; whatever else happens is a bug.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
