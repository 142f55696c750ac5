// Element types and half-precision rounding.
#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

const std::vector<DType> kAll = {DType::boolean, DType::int16,   DType::int32,   DType::int64,
                                 DType::float16, DType::float32, DType::float64, DType::uint8,
                                 DType::int8,    DType::bfloat16};

TEST(DType, NamesAndWireNumbersGoBothWays) {
  for (DType dtype : kAll) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
    EXPECT_EQ(dtype_from_wire(static_cast<int>(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("uint16"), DType::bfloat16);
  EXPECT_EQ(dtype_from_name("complex64"), std::nullopt);
  EXPECT_EQ(dtype_from_wire(7), std::nullopt);
}

TEST(DType, SizesAndClasses) {
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_EQ(size_of(DType::bfloat16), 2u);
  EXPECT_EQ(size_of(DType::float64), 8u);
  EXPECT_TRUE(is_floating(DType::float16));
  EXPECT_FALSE(is_floating(DType::int64));
  EXPECT_TRUE(is_integer(DType::uint8));
  EXPECT_FALSE(is_integer(DType::boolean));
}

TEST(Float16, EveryNumberSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    float16 half;
    half.bits = static_cast<uint16_t>(bits);
    const float16 back{static_cast<float>(half)};
    if (std::isnan(static_cast<float>(half))) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back)));
    } else {
      ASSERT_EQ(back.bits, half.bits);
    }
  }
}

TEST(Float16, KnownBits) {
  EXPECT_EQ(float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(float16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(float16(-0.0f).bits, 0x8000);
}

TEST(Float16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(float16(1.0f + 0x1p-11f).bits, 0x3c00);             // tie: down to even
  EXPECT_EQ(float16(1.0f + 0x1p-10f + 0x1p-11f).bits, 0x3c02);  // tie: up to even
  EXPECT_EQ(float16(1.0f + 0x1p-11f + 0x1p-20f).bits, 0x3c01);
  EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);  // tie: up to infinity
  EXPECT_EQ(float16(0x1p-25f).bits, 0x0000);  // half the smallest: tie to zero
  EXPECT_EQ(float16(0x1.8p-25f).bits, 0x0001);
  EXPECT_EQ(float16(std::nextafter(0x1p-14f, 0.0f)).bits, 0x0400);  // carries into the normals
}

TEST(Bfloat16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(1.0f + 0x1p-7f + 0x1p-8f).bits, 0x3f82);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(bfloat16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::nanf("")))));
  EXPECT_EQ(static_cast<float>(bfloat16(-3.5f)), -3.5f);
}

}  // namespace
}  // namespace trireme
