// softmax: known values, axes, and logits far apart.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

TEST(Softmax, RowsSumToOne) {
  const auto out = numbers(run_op("softmax", {{"X", doubles({2, 2}, {0, std::log(3), 5, 5})}}));
  EXPECT_NEAR(out[0], 0.25, 1e-12);
  EXPECT_NEAR(out[1], 0.75, 1e-12);
  EXPECT_NEAR(out[2], 0.5, 1e-12);
}

TEST(Softmax, RunsAlongTheAxis) {
  const auto out =
      numbers(run_op("softmax", {{"X", doubles({2, 2}, {0, 1, std::log(3), 1})}}, {{"axis", 0}}));
  EXPECT_NEAR(out[0], 0.25, 1e-12);
  EXPECT_NEAR(out[1], 0.5, 1e-12);
  EXPECT_NEAR(out[2], 0.75, 1e-12);
}

TEST(Softmax, LargeLogitsNeitherOverflowNorVanish) {
  const auto out = numbers(run_op("softmax", {{"X", floats({1, 2}, {1000, -1000})}}));
  EXPECT_FLOAT_EQ(static_cast<float>(out[0]), 1);
  EXPECT_GT(out[1], 0);  // a logarithm of it stays finite
}

TEST(Softmax, NanShows) {
  EXPECT_TRUE(std::isnan(numbers(run_op("softmax", {{"X", floats({1, 2}, {1, NAN})}}))[0]));
}

TEST(Softmax, RefusesAnAxisThatIsNotThere) {
  EXPECT_THAT(error_of([] {
                run_op("softmax", {{"X", doubles({1, 1}, {1})}}, {{"axis", 2}});
              }),
              HasSubstr("axis is 2"));
}

}  // namespace
}  // namespace trireme::testing
