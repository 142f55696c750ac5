// The exponential function and the hyperbolic tangent as a loop can vectorise them.
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

// The hyperbolic tangent. float: within 3 units in the last place, the same bits at every vector
// width. A polynomial near zero, where the quotient would cancel; both sides are computed and one
// is chosen.
inline float hyperbolic_tangent(float x) {
  const float size = x < 0 ? -x : x;
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float near = p * square * x + x;
  const float far = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
  const float signed_far = x < 0 ? -far : far;
  return size < 0.625f ? near : signed_far;
}

inline double hyperbolic_tangent(double x) { return std::tanh(x); }

}  // namespace trireme
