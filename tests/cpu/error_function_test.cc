// The error function of float against that of the standard library.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cpu/exponential.h"
#include "cpu/vectorised.h"
#include "ir/sample.h"
#include "tests/support/seed.h"

namespace trireme {
namespace {

// In units in the last place of the true value.
double error_of_erf(float x) {
  const double wanted = std::erf(double{x});
  const auto rounded = static_cast<float>(std::fabs(wanted));
  const double unit = std::nextafter(rounded, 2.0f) - rounded;
  return std::fabs(double{error_function(x)} - wanted) / unit;
}

TEST(ErrorFunction, IsWithinThreeUnitsInTheLastPlace) {
  for (float x = -4.5f; x < 4.5f; x += 1.0f / 4096) EXPECT_LE(error_of_erf(x), 3) << x;
  for (float x = 1e-30f; x < 1; x *= 1.3f) EXPECT_LE(error_of_erf(x), 3) << x;
  const Tensor drawn = Draw(trireme::testing::test_seed()).uniform({4000}, -6, 6);
  for (int64_t i = 0; i < drawn.numel(); ++i) {
    const auto x = static_cast<float>(drawn.data<double>()[i]);
    EXPECT_LE(error_of_erf(x), 3) << x;
    EXPECT_EQ(error_function(-x), -error_function(x)) << x;
  }
}

TEST(ErrorFunction, EndsAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_function(0.0f), 0.0f);
  EXPECT_EQ(error_function(kInfinity), 1.0f);
  EXPECT_EQ(error_function(-kInfinity), -1.0f);
  EXPECT_EQ(error_function(9.0f), 1.0f);
  EXPECT_TRUE(std::isnan(error_function(std::nanf(""))));
}

TEST(ErrorFunction, AnyWidthGivesTheSameBits) {
  constexpr size_t kCount = 333;
  float from[kCount], wide[kCount];
  for (size_t i = 0; i < kCount; ++i) from[i] = 0.03f * static_cast<float>(i) - 5;
  vectorised([&] {
    for (size_t i = 0; i < kCount; ++i) wide[i] = error_function(from[i]);
  });
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(wide[i], error_function(from[i])) << from[i];
}

}  // namespace
}  // namespace trireme
