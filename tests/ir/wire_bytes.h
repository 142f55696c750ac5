// Fields of the wire format, written by hand.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::testing {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string num(int field, uint64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(value);
}
inline std::string text(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string msg(int field, const std::string& fields) { return text(field, fields); }

// A program whose global block has the given vars and ops.
inline std::string block_with(const std::string& parts) {
  return msg(1, num(1, 0) + num(2, ~0ull) + parts) + msg(4, num(1, 2004002));
}

}  // namespace trireme::testing
