// The numbers that PaddlePaddle 1.8 draws on the CPU under a seed: one after another from one
// generator, by its own distributions.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace trireme {

// x' = 48271 x mod (2^31 - 1), which starts from the seed's low 32 bits.
class OriginalRandom {
 public:
  explicit OriginalRandom(uint64_t seed) : state_(static_cast<uint32_t>(seed) % kModulus) {
    if (state_ == 0) state_ = 1;
  }

  // In [0, 1), from as many draws as the type has room for.
  template <class T>
  T fraction() {
    constexpr T kDraws = static_cast<T>(kModulus - 1);
    if constexpr (sizeof(T) <= 4) {
      return static_cast<T>(draw()) / kDraws;
    } else {
      const T low = static_cast<T>(draw());
      return (low + static_cast<T>(draw()) * kDraws) / (kDraws * kDraws);
    }
  }

  template <class T>
  T uniform(T low, T high) {
    return fraction<T>() * (high - low) + low;
  }

  // From low to high, both included: draws that would favour small numbers are drawn again.
  int64_t whole(int64_t low, int64_t high) {
    const uint64_t count = static_cast<uint64_t>(high - low) + 1;
    const uint64_t scale = (kModulus - 2) / count;
    for (;;) {
      const uint64_t drawn = draw();
      if (drawn < count * scale) return low + static_cast<int64_t>(drawn / scale);
    }
  }

 private:
  static constexpr uint64_t kModulus = 2147483647;

  uint64_t draw() { return (state_ = state_ * 48271 % kModulus) - 1; }

  uint64_t state_;
};

// Pairs by Marsaglia's polar method; the second of a pair comes first.
template <class T>
class OriginalNormal {
 public:
  explicit OriginalNormal(OriginalRandom& random) : random_(random) {}

  T draw() {
    if (has_kept_) {
      has_kept_ = false;
      return kept_;
    }
    T x = 0, y = 0, square = 0;
    do {
      x = T(2) * random_.fraction<T>() - T(1);
      y = T(2) * random_.fraction<T>() - T(1);
      square = x * x + y * y;
    } while (square > T(1) || square == T(0));
    const T factor = std::sqrt(T(-2) * std::log(square) / square);
    kept_ = x * factor;
    has_kept_ = true;
    return y * factor;
  }

 private:
  OriginalRandom& random_;
  T kept_ = 0;
  bool has_kept_ = false;
};

// Within two standard deviations, by the inverse of the distribution; one draw each. The original
// rounds to single precision when deviation and mean are in.
double original_truncated_normal(OriginalRandom& random);

}  // namespace trireme
