// Known values and wrong uses of the activations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

std::vector<double> of_each(const std::string& op, const std::vector<double>& x, Attrs attrs = {}) {
  const auto n = static_cast<int64_t>(x.size());
  return numbers(run_op(op, {{"X", doubles({n}, x)}}, std::move(attrs)));
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6) << "at " << i;
}

TEST(Activation, KnownValues) {
  const std::vector<double> x = {-2, -0.5, 0, 0.5, 3};
  expect_near(of_each("relu", x), {0, 0, 0, 0.5, 3});
  expect_near(of_each("leaky_relu", x, {{"alpha", 0.1f}}), {-0.2, -0.05, 0, 0.5, 3});
  expect_near(of_each("elu", x), {std::exp(-2) - 1, std::exp(-0.5) - 1, 0, 0.5, 3});
  expect_near(of_each("softsign", x), {-2. / 3, -1. / 3, 0, 1. / 3, 0.75});
  expect_near(of_each("hard_sigmoid", x), {0.1, 0.4, 0.5, 0.6, 1});
  expect_near(of_each("hard_swish", x), {-2. / 6, -0.5 * 2.5 / 6, 0, 0.5 * 3.5 / 6, 3});
  expect_near(of_each("thresholded_relu", x), {0, 0, 0, 0, 3});
  expect_near(of_each("hard_shrink", x), {-2, 0, 0, 0, 3});
  expect_near(of_each("softshrink", x), {-1.5, 0, 0, 0, 2.5});
  expect_near(of_each("brelu", x, {{"t_min", -1.f}, {"t_max", 1.f}}), {-1, -0.5, 0, 0.5, 1});
  expect_near(of_each("relu6", {-1, 5, 7}), {0, 5, 6});
  expect_near(of_each("round", {-1.5, -0.4, 0.5, 1.2}), {-2, 0, 1, 1});
  expect_near(of_each("floor", {-1.5, 1.2}), {-2, 1});
  expect_near(of_each("ceil", {-1.5, 1.2}), {-1, 2});
  expect_near(of_each("pow", {2, 3}, {{"factor", 3.f}}), {8, 27});
  expect_near(of_each("gelu", {1}), {0.8413447});
  expect_near(of_each("gelu", {1}, {{"approximate", true}}), {0.8411920});
  expect_near(of_each("swish", {1}, {{"beta", 2.f}}), {1 / (1 + std::exp(-2))});
}

TEST(Activation, KnownValuesOfSmoothOnes) {
  expect_near(of_each("abs", {-2, 3}), {2, 3});
  expect_near(of_each("square", {-3, 0.5}), {9, 0.25});
  expect_near(of_each("sqrt", {9, 0.25}), {3, 0.5});
  expect_near(of_each("rsqrt", {4, 0.25}), {0.5, 2});
  expect_near(of_each("reciprocal", {4, -0.5}), {0.25, -2});
  expect_near(of_each("exp", {0, 1}), {1, 2.718281828});
  expect_near(of_each("log", {1, 2}), {0, 0.693147181});
  expect_near(of_each("log1p", {0, 1}), {0, 0.693147181});
  expect_near(of_each("sin", {0.5}), {0.479425539});
  expect_near(of_each("cos", {0.5}), {0.877582562});
  expect_near(of_each("erf", {0.5}), {0.520499878});
  expect_near(of_each("tanh", {0.5}), {0.462117157});
  expect_near(of_each("tanh_shrink", {0.5}), {0.037882843});
  expect_near(of_each("stanh", {1}), {1.003766981});  // 1.7159 tanh(0.67)
  expect_near(of_each("selu", {1, -1}), {1.050700987, -1.111330738});
  expect_near(of_each("soft_relu", {0, 50}, {{"threshold", 2.f}}), {std::log(2), 2.126928011});
}

TEST(Activation, LogisticOnesStayFiniteFarFromZero) {
  expect_near(of_each("softplus", {-1000, 0, 1000}), {0, std::log(2), 1000});
  expect_near(of_each("logsigmoid", {-1000, 0, 1000}), {-1000, -std::log(2), 0});
  expect_near(of_each("sigmoid", {-1000, 0, 1000}), {0, 0.5, 1});
  expect_near(of_each("elu", {-1000, 1000}), {-1, 1000});
}

// At 0 the pieces these are written in have kinks, but the functions have none.
TEST(Activation, SmoothOnesHaveTheRightSlopeAtZero) {
  for (const char* op : {"softplus", "logsigmoid", "elu", "swish", "gelu", "softsign"}) {
    const GradCheck check = check_grad({.type = op, .inputs = {{"X", {doubles({1}, {0})}}}});
    EXPECT_LT(check.worst, 1e-4) << op << " " << check.where;
  }
}

TEST(Activation, PreluTakesOneSlopePerChannel) {
  const Tensor x = doubles({1, 2, 2}, {-1, 2, -3, -4});
  const Tensor out =
      run_op("prelu", {{"X", x}, {"Alpha", doubles({2}, {0.5, 0.25})}}, {{"mode", "channel"}});
  expect_near(numbers(out), {-0.5, 2, -0.75, -1});
}

TEST(Activation, PassesTheLodOn) {
  Tensor x = floats({3, 1}, {1, 2, 3});
  x.set_lod({{0, 1, 3}});
  EXPECT_EQ(run_op("tanh", {{"X", x}}).lod(), x.lod());
}

TEST(Activation, WholeNumbersAreRefusedWithAdvice) {
  const std::string what = error_of([] { run_op("relu", {{"X", longs({2}, {1, 2})}}); });
  EXPECT_THAT(what, HasSubstr("X holds int64 but must hold real numbers"));
  EXPECT_THAT(what, HasSubstr("cast X to float32"));
}

TEST(Activation, PreluCountsItsSlopes) {
  const std::string what = error_of([] {
    run_op("prelu", {{"X", doubles({1, 3}, {1, 2, 3})}, {"Alpha", doubles({2}, {1, 1})}},
           {{"mode", "channel"}});
  });
  EXPECT_THAT(what, HasSubstr("has 2 elements but mode channel needs 3"));
}

TEST(Activation, AnUnknownModeIsRefused) {
  const std::string what = error_of([] {
    run_op("prelu", {{"X", doubles({1}, {1})}, {"Alpha", doubles({1}, {1})}}, {{"mode", "row"}});
  });
  EXPECT_THAT(what, HasSubstr("mode"));
}

}  // namespace
}  // namespace trireme::testing
