// Counter-based random numbers: Philox 4x32-10. Number i of a stream needs no earlier number.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// A stream is named, not stateful: the seed is the key; the counter's low half is the element
// index and its high half the stream, so streams of one seed never overlap.
class Philox {
 public:
  // `first`: element i is element first + i of the stream, so that parts of a tensor can be drawn
  // apart from each other.
  Philox(uint64_t seed, uint64_t stream, uint64_t first = 0)
      : seed_(seed), stream_(stream), first_(first) {}

  std::array<uint32_t, 4> block(uint64_t index) const;  // four numbers at counter `index`
  uint32_t bits(uint64_t i) const { return block((first_ + i) / 4)[(first_ + i) % 4]; }
  double uniform(uint64_t i) const;  // in [0, 1), 53 random bits
  double normal(uint64_t i) const;   // mean 0, deviation 1 (Box-Muller)
  // Within two standard deviations, by redrawing from the element's own sub-stream.
  double truncated_normal(uint64_t i) const;

  // For generators elsewhere that draw the same numbers.
  uint64_t seed() const { return seed_; }
  uint64_t stream() const { return stream_; }
  uint64_t first() const { return first_; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t first_;
};

uint64_t stream_of(std::string_view name);  // FNV-1a: equal in every process
uint64_t fresh_seed();                      // from the system, never 0

}  // namespace trireme
