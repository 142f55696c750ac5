// Known values and wrong uses of the two-operand ops, comparisons and logic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor bools(const Shape& shape, const std::vector<double>& values) {
  return cast(doubles(shape, values), DType::boolean);
}

TEST(Elementwise, AxisSaysWhereYStandsInX) {
  const Tensor x = floats({2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const Tensor by_row =
      run_op("elementwise_add", {{"X", x}, {"Y", floats({2}, {10, 20})}}, {{"axis", 0}});
  EXPECT_THAT(numbers(by_row), ElementsAre(11, 12, 13, 24, 25, 26));
  const Tensor by_column =
      run_op("elementwise_sub", {{"X", x}, {"Y", floats({3}, {1, 2, 3})}}, {{"axis", 1}});
  EXPECT_THAT(numbers(by_column), ElementsAre(0, 0, 0, 3, 3, 3));
}

TEST(Elementwise, TrailingOnesOfYAreDropped) {
  const Tensor out = run_op("elementwise_mul",
                            {{"X", floats({2, 2}, {1, 2, 3, 4})}, {"Y", floats({2, 1}, {10, 100})}},
                            {{"axis", 1}});
  EXPECT_THAT(numbers(out), ElementsAre(10, 200, 30, 400));
}

TEST(Elementwise, XMayBeTheNarrowerOne) {
  const Tensor out =
      run_op("elementwise_div", {{"X", floats({1}, {12})}, {"Y", floats({2, 2}, {1, 2, 3, 4})}});
  EXPECT_EQ(out.shape(), (Shape{2, 2}));
  EXPECT_THAT(numbers(out), ElementsAre(12, 6, 4, 3));
}

TEST(Elementwise, WholeNumbersDivideTowardsZeroOrDown) {
  const Tensor x = longs({4}, {7, -7, 7, -7}), y = longs({4}, {2, 2, -2, -2});
  const auto divided = [&](const char* op, bool down) {
    return numbers(run_op(op, {{"X", x}, {"Y", y}}, {{"rounds_down", down}}));
  };
  EXPECT_THAT(divided("elementwise_floordiv", false), ElementsAre(3, -3, -3, 3));
  EXPECT_THAT(divided("elementwise_mod", false), ElementsAre(1, -1, 1, -1));
  EXPECT_THAT(divided("elementwise_floordiv", true), ElementsAre(3, -4, -4, 3));
  EXPECT_THAT(divided("elementwise_mod", true), ElementsAre(1, 1, -1, -1));
  EXPECT_THAT(
      numbers(run_op("elementwise_pow", {{"X", longs({2}, {3, -2})}, {"Y", longs({2}, {4, 3})}})),
      ElementsAre(81, -8));
}

TEST(Elementwise, MaxAndMin) {
  const Tensor x = floats({3}, {1, 5, 2}), y = floats({3}, {2, 4, 2});
  EXPECT_THAT(numbers(run_op("elementwise_max", {{"X", x}, {"Y", y}})), ElementsAre(2, 5, 2));
  EXPECT_THAT(numbers(run_op("elementwise_min", {{"X", x}, {"Y", y}})), ElementsAre(1, 4, 2));
}

TEST(Elementwise, ShapesThatDoNotFitAreShown) {
  const std::string what = error_of([] {
    run_op("elementwise_add",
           {{"X", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"Y", floats({2}, {1, 2})}});
  });
  EXPECT_THAT(what, HasSubstr("[2, 3]"));
  EXPECT_THAT(what, HasSubstr("3 against 2"));
}

TEST(Elementwise, DifferentTypesAreRefused) {
  const std::string what = error_of([] {
    run_op("elementwise_add", {{"X", floats({1}, {1})}, {"Y", longs({1}, {1})}});
  });
  EXPECT_THAT(what, HasSubstr("X holds float32 but Y holds int64"));
}

TEST(Elementwise, DivisionOfWholeNumbersByZeroIsAnError) {
  const std::string what = error_of([] {
    run_op("elementwise_div", {{"X", longs({2}, {1, 2})}, {"Y", longs({2}, {1, 0})}});
  });
  EXPECT_THAT(what, HasSubstr("divided by zero"));
}

TEST(Compare, GivesBoolAndBroadcasts) {
  const Tensor x = longs({2, 2}, {1, 2, 3, 4}), y = longs({1}, {2});
  const Tensor out = run_op("less_than", {{"X", x}, {"Y", y}});
  EXPECT_EQ(out.dtype(), DType::boolean);
  EXPECT_THAT(numbers(out), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(numbers(run_op("less_equal", {{"X", x}, {"Y", y}})), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(numbers(run_op("greater_than", {{"X", x}, {"Y", y}})), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(numbers(run_op("greater_equal", {{"X", x}, {"Y", y}})), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(numbers(run_op("equal", {{"X", x}, {"Y", y}})), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(numbers(run_op("not_equal", {{"X", x}, {"Y", y}})), ElementsAre(1, 0, 1, 1));
}

TEST(Compare, Logic) {
  const Tensor x = bools({4}, {0, 0, 1, 1}), y = bools({4}, {0, 1, 0, 1});
  EXPECT_THAT(numbers(run_op("logical_and", {{"X", x}, {"Y", y}})), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(numbers(run_op("logical_or", {{"X", x}, {"Y", y}})), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(numbers(run_op("logical_xor", {{"X", x}, {"Y", y}})), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(numbers(run_op("logical_not", {{"X", x}})), ElementsAre(1, 1, 0, 0));
}

TEST(Compare, QuestionsAboutAWholeTensor) {
  const Tensor good = floats({2}, {1, 2}),
               bad = floats({2}, {1, std::numeric_limits<float>::infinity()});
  EXPECT_THAT(numbers(run_op("isfinite", {{"X", good}})), ElementsAre(1));
  EXPECT_THAT(numbers(run_op("isfinite", {{"X", bad}})), ElementsAre(0));
  EXPECT_THAT(numbers(run_op("isinf", {{"X", bad}})), ElementsAre(1));
  EXPECT_THAT(numbers(run_op("isnan", {{"X", bad}})), ElementsAre(0));
  EXPECT_THAT(numbers(run_op("is_empty", {{"X", good}})), ElementsAre(0));
}

TEST(Compare, LogicOfNumbersIsRefused) {
  const std::string what = error_of([] { run_op("logical_not", {{"X", floats({1}, {1})}}); });
  EXPECT_THAT(what, HasSubstr("X holds float32 but must hold bool"));
}

}  // namespace
}  // namespace trireme::testing
