// Dimensions, known and unknown, and the shapes made of them.
#include "core/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"

namespace trireme {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

TEST(Dim, ArithmeticWithAnUnknownIsUnknown) {
  const Dim unknown;
  EXPECT_FALSE((unknown + 1).known());
  EXPECT_FALSE((Dim(4) - unknown).known());
  EXPECT_FALSE((unknown * 3).known());
  EXPECT_FALSE((Dim(4) / 0).known());
  EXPECT_EQ(Dim(7) / 2, Dim(3));
  EXPECT_EQ(unknown * 0, Dim(0));
  EXPECT_EQ(Dim(-5), unknown);
}

TEST(Dim, SumsAndProductsSaturate) {
  EXPECT_EQ((Dim(kLargest) + 1).value(), kLargest);
  EXPECT_EQ((Dim(kLargest) * 2).value(), kLargest);
  EXPECT_EQ((Dim(kLargest) * 2 * 0).value(), 0);
}

TEST(Dim, JoinTakesTheMoreDefinite) {
  EXPECT_EQ(Dim::join(Dim(), 3), Dim(3));
  EXPECT_EQ(Dim::join(2, Dim()), Dim(2));
  EXPECT_TRUE(Dim().may_equal(3));
  EXPECT_FALSE(Dim(2).may_equal(3));
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape({2, 3, 4}).count(), 24);
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape({-1, 3}).count(), -1);
  EXPECT_EQ(Shape({-1, 0}).count(), 0);
  EXPECT_EQ(Shape({2, 3, 4}).product(1, 3), Dim(12));
  EXPECT_EQ(Shape({2, 3, 4}).product(1, 1), Dim(1));
}

TEST(Shape, InsertsAndErasesDims) {
  Shape shape{2, 4};
  shape.insert(1, 3);
  shape.push_back(5);
  EXPECT_EQ(shape, Shape({2, 3, 4, 5}));
  shape.erase(0);
  EXPECT_EQ(shape, Shape({3, 4, 5}));
  EXPECT_EQ(shape.back(), Dim(5));
}

TEST(Shape, ComparesWithUnknowns) {
  EXPECT_TRUE(Shape({-1, 3}).may_equal({8, 3}));
  EXPECT_FALSE(Shape({-1, 3}).may_equal({8, 4}));
  EXPECT_FALSE(Shape({-1, 3}).may_equal({8, 3, 1}));
  EXPECT_FALSE(Shape({-1, 3}) == Shape({8, 3}));
  EXPECT_FALSE(Shape({-1}).known());
}

TEST(Shape, PrintsUnknownAsMinusOne) {
  EXPECT_EQ(Shape({64, 784}).to_string(), "[64, 784]");
  EXPECT_EQ(Shape({-1, 1}).to_string(), "[-1, 1]");
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_EQ(Shape({-1, 2}).to_vector(), (std::vector<int64_t>{-1, 2}));
}

TEST(Shape, TooManyDimsIsAnError) {
  const std::vector<int64_t> ten(10, 1);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  Shape nine(std::span<const int64_t>(ten).first(9));
  EXPECT_EQ(nine.rank(), kMaxRank);
  EXPECT_THROW(nine.push_back(1), Error);
  try {
    Shape{std::span<const int64_t>(ten)};
    FAIL() << "ten dimensions were taken";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("a shape has 10 dimensions; at most 9"));
  }
}

}  // namespace
}  // namespace trireme
