// Element types, with the numbers they have in the model file format.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trireme {

enum class DType : uint8_t {
  boolean = 0,
  int16 = 1,
  int32 = 2,
  int64 = 3,
  float16 = 4,
  float32 = 5,
  float64 = 6,
  uint8 = 20,
  int8 = 21,
  bfloat16 = 22,
};

size_t size_of(DType dtype);
std::string_view name_of(DType dtype);                        // "float32", "bool", ...
std::optional<DType> dtype_from_name(std::string_view name);  // also "bool", "uint16" (= bfloat16)
std::optional<DType> dtype_from_wire(int number);             // a VarType.Type number
bool is_floating(DType dtype);
bool is_integer(DType dtype);  // bool is not

// Half-precision storage; arithmetic happens in float. Conversions round to nearest, ties to even.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  constexpr explicit float16(float value) : bits(round_to_bits(value)) {}
  constexpr operator float() const;

 private:
  static constexpr uint16_t round_to_bits(float value);
};
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(round_to_bits(value)) {}
  constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

 private:
  static constexpr uint16_t round_to_bits(float value);
};

constexpr float16::operator float() const {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {  // zero or subnormal: exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

constexpr uint16_t float16::round_to_bits(float value) {
  const uint32_t all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (all >> 16) & 0x8000u;
  const uint32_t magnitude = all & 0x7fffffffu;
  uint32_t result = 0;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN stays NaN
  } else if (magnitude >= 0x477ff000u) {
    result = 0x7c00u;  // 65520 and above round to infinity
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 makes the float adder round at 2^-24, the last place of the result.
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    result = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | result);
}

constexpr uint16_t bfloat16::round_to_bits(float value) {
  const uint32_t all = std::bit_cast<uint32_t>(value);
  if ((all & 0x7fffffffu) > 0x7f800000u) {  // rounding could carry a NaN into infinity
    return static_cast<uint16_t>((all >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((all + 0x7fffu + ((all >> 16) & 1u)) >> 16);
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace trireme
