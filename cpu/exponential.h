// The exponential function as a loop can vectorise it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trireme {

// e to the x. float: within 2 units in the last place of the true value, the same bits at every
// vector width; overflows to infinity and fades to zero through the subnormals; NaN stays NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial, 2^n in two steps that cannot overflow
// before the result does.
inline float exponential(float x) {
  x = x > 89.0f ? 89.0f : x;  // both keep NaN
  x = x < -104.0f ? -104.0f : x;
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves a whole number
  const float shifted = x * 1.44269504f + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r * r + r) + 1.0f;
  const auto whole = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRounder);
  const int32_t half = whole >> 1;
  const auto power = [](int32_t e) {
    return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
  };
  return p * power(half) * power(whole - half);
}

inline double exponential(double x) { return std::exp(x); }

}  // namespace trireme
