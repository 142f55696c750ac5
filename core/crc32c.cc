// CRC-32C (Castagnoli): with the processor's instruction where there is one, else by a table.
#include "core/crc32c.h"

#include <array>
#include <cstring>

namespace trireme {
namespace {

constexpr std::array<uint32_t, 256> kRemainders = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0u);
    table[byte] = rest;
  }
  return table;
}();

uint32_t by_table(uint32_t rest, const uint8_t* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) rest = rest >> 8 ^ kRemainders[(rest ^ data[i]) & 255];
  return rest;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t by_instruction(uint32_t rest, const uint8_t* data,
                                                          size_t bytes) {
  uint64_t wide = rest;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; bytes > 0; ++data, --bytes) narrow = __builtin_ia32_crc32qi(narrow, *data);
  return narrow;
}
#endif

}  // namespace

uint32_t crc32c(uint32_t before, const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~by_instruction(~before, from, bytes);
#endif
  return ~by_table(~before, from, bytes);
}

}  // namespace trireme
