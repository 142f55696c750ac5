// SHA-256 (FIPS 180-4): tells whether bytes are the ones that were written.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

using Sha256 = std::array<uint8_t, 32>;
Sha256 sha256(std::string_view bytes);
std::string hex(const Sha256& digest);

}  // namespace trireme
