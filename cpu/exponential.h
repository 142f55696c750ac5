// The exponential function, the hyperbolic tangent and the error function as a loop can vectorise
// them.
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

// The error function. float: within 3 units in the last place, the same bits at every vector width;
// NaN stays NaN. Below 1 a polynomial in the square; above it 1 - e^-r, where r is a polynomial
// that was fitted to -log(erfc) up to 4, and from there on the result is 1.
inline float error_function(float x) {
  const float size = x < 0 ? -x : x;
  const float square = x * x;
  float p = 7.853875286e-5f;
  p = p * square - 8.010198362e-4f;
  p = p * square + 5.188328214e-3f;
  p = p * square - 2.685381286e-2f;
  p = p * square + 1.128358543e-1f;
  p = p * square - 3.761262596e-1f;
  p = p * square + 1.283791661e-1f;
  const float near = p * x + x;
  const float at = size < 4.0f ? size : 4.0f;
  float r = 2.168675383e-5f;
  r = r * at - 4.413351999e-4f;
  r = r * at + 4.204555880e-3f;
  r = r * at - 2.520823851e-2f;
  r = r * at + 1.084185466e-1f;
  r = r * at + 6.332198977e-1f;
  r = r * at + 1.129578352e0f;
  r = r * at - 1.880366908e-4f;
  const float far = 1.0f - exponential(-r);
  const float signed_far = x < 0 ? -far : far;
  return size >= 1.0f ? signed_far : near;
}

inline double error_function(double x) { return std::erf(x); }

}  // namespace trireme
