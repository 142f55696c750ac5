// CRC-32C (Castagnoli): tells damaged bytes from the ones that were written, at the speed of
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

// The sum of what came before and these bytes; begin with 0.
uint32_t crc32c(uint32_t before, const void* data, size_t bytes);

}  // namespace trireme
