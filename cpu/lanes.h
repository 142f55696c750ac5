// Channels that stand side by side at each pixel, in groups that fill vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "cpu/vectorised.h"

namespace trireme {

inline constexpr int64_t kLanes = 16;

// Blocks of `step` channels are cut into groups of sixteen, the rest into powers of two.
struct LaneGroups {
  explicit LaneGroups(int64_t step)
      : step(step),
        per_block(step / kLanes + std::popcount(static_cast<uint64_t>(step % kLanes))) {}

  int64_t step, per_block;

  // Of group `index` of a block: its first channel, and how many there are.
  struct Lanes {
    int64_t first, count;
  };
  Lanes lanes(int64_t index) const {
    const int64_t full = step / kLanes;
    if (index < full) return {index * kLanes, kLanes};
    auto rest = static_cast<uint64_t>(step % kLanes);
    uint64_t first = 0;
    for (int64_t i = full; i < index; ++i) {
      first += std::bit_floor(rest);
      rest -= std::bit_floor(rest);
    }
    return {full * kLanes + static_cast<int64_t>(first),
            static_cast<int64_t>(std::bit_floor(rest))};
  }
};

// Runs body(lanes), a constant, as vectors.
template <class Body>
void with_lanes(int64_t lanes, const Body& body) {
  vectorised([&] {
    switch (lanes) {
      case 16:
        return body(std::integral_constant<int64_t, 16>());
      case 8:
        return body(std::integral_constant<int64_t, 8>());
      case 4:
        return body(std::integral_constant<int64_t, 4>());
      case 2:
        return body(std::integral_constant<int64_t, 2>());
      default:
        return body(std::integral_constant<int64_t, 1>());
    }
  });
}

}  // namespace trireme
