// What elementwise primitives compute from their numbers: one definition for whole tensors and for
// tiles, so both give the same bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/error.h"
#include "cpu/exponential.h"

namespace trireme::element {

template <class T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

// Whole numbers wrap around instead of overflowing.
template <class T, class F>
T whole_or_real(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<Wrapping<T>>(a), static_cast<Wrapping<T>>(b)));
  } else {
    return f(a, b);
  }
}

template <class T>
void refuse_zero_divisor(T b) {
  if (b == 0) {
    throw Error("a whole number is divided by zero")
        .fix("keep zeros out of the divisor, or cast the operands to float32 first");
  }
}

// ---- one operand

inline constexpr auto neg = [](auto a) {
  if constexpr (std::is_integral_v<decltype(a)>) {
    return static_cast<decltype(a)>(0 - static_cast<std::make_unsigned_t<decltype(a)>>(a));
  } else {
    return -a;
  }
};
inline constexpr auto abs = [](auto a) { return a < 0 ? -a : a; };
inline constexpr auto sign = [](auto a) { return (a > 0) - (a < 0); };
inline constexpr auto square = [](auto a) {
  if constexpr (std::is_integral_v<decltype(a)>) {
    const auto wide = static_cast<std::make_unsigned_t<decltype(a)>>(a);
    return wide * wide;
  } else {
    return a * a;
  }
};
inline constexpr auto exp = [](auto a) { return exponential(a); };
inline constexpr auto log = [](auto a) { return std::log(a); };
inline constexpr auto log1p = [](auto a) { return std::log1p(a); };
inline constexpr auto sqrt = [](auto a) { return std::sqrt(a); };
inline constexpr auto rsqrt = [](auto a) { return 1 / std::sqrt(a); };
inline constexpr auto reciprocal = [](auto a) { return 1 / a; };
inline constexpr auto tanh = [](auto a) { return hyperbolic_tangent(a); };
inline constexpr auto sigmoid = [](auto a) { return 1 / (1 + exponential(-a)); };
inline constexpr auto sin = [](auto a) { return std::sin(a); };
inline constexpr auto cos = [](auto a) { return std::cos(a); };
inline constexpr auto erf = [](auto a) { return error_function(a); };
inline constexpr auto floor = [](auto a) { return std::floor(a); };
inline constexpr auto ceil = [](auto a) { return std::ceil(a); };
inline constexpr auto round = [](auto a) { return std::round(a); };

// ---- two operands

inline constexpr auto add = [](auto a, auto b) {
  return whole_or_real(a, b, [](auto x, auto y) { return x + y; });
};
inline constexpr auto sub = [](auto a, auto b) {
  return whole_or_real(a, b, [](auto x, auto y) { return x - y; });
};
inline constexpr auto mul = [](auto a, auto b) {
  return whole_or_real(a, b, [](auto x, auto y) { return x * y; });
};
inline constexpr auto div = []<class T>(T a, T b) -> T {
  if constexpr (std::is_integral_v<T>) {
    refuse_zero_divisor(b);
    if (b == T(-1)) return static_cast<T>(0 - static_cast<Wrapping<T>>(a));  // the least a / -1
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
};
inline constexpr auto pow = [](auto a, auto b) {
  if constexpr (std::is_integral_v<decltype(a)>) {
    return std::llrint(std::pow(static_cast<double>(a), static_cast<double>(b)));
  } else {
    return std::pow(a, b);
  }
};
inline constexpr auto max = [](auto a, auto b) { return a > b ? a : b; };
inline constexpr auto min = [](auto a, auto b) { return a < b ? a : b; };
// The remainder has the sign of the divisor, and floordiv(a, b) * b + remainder == a.
inline constexpr auto mod = []<class T>(T a, T b) -> T {
  T rest;
  if constexpr (std::is_integral_v<T>) {
    refuse_zero_divisor(b);
    rest = b == T(-1) ? T(0) : static_cast<T>(a % b);
  } else {
    rest = std::fmod(a, b);
  }
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
};
inline constexpr auto floordiv = []<class T>(T a, T b) -> T {
  if constexpr (std::is_integral_v<T>) {
    const T quotient = div(a, b);
    const bool inexact = b != T(-1) && a % b != 0;
    return inexact && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  } else {
    return std::floor(a / b);
  }
};

inline constexpr auto eq = [](auto a, auto b) { return a == b; };
inline constexpr auto ne = [](auto a, auto b) { return a != b; };
inline constexpr auto lt = [](auto a, auto b) { return a < b; };
inline constexpr auto le = [](auto a, auto b) { return a <= b; };
inline constexpr auto gt = [](auto a, auto b) { return a > b; };
inline constexpr auto ge = [](auto a, auto b) { return a >= b; };

}  // namespace trireme::element
