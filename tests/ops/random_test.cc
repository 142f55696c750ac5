// What random ops draw, when it repeats, and what they refuse.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Longs = std::vector<int64_t>;
constexpr int kFloat64 = static_cast<int>(DType::float64);

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

Tensor uniform(Attrs attrs) {
  attrs.try_emplace("shape", Longs{40, 50});
  return run_op("uniform_random", {}, std::move(attrs));
}

TEST(UniformRandom, StaysInItsRange) {
  const auto values = numbers(uniform({{"seed", 3}, {"min", 2.0f}, {"max", 4.0f}}));
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 2.0);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 4.0);
  EXPECT_NEAR(mean_of(values), 3.0, 0.05);
}

TEST(UniformRandom, ASeedRepeatsItsNumbers) {
  EXPECT_EQ(numbers(uniform({{"seed", 3}})), numbers(uniform({{"seed", 3}})));
  EXPECT_NE(numbers(uniform({{"seed", 3}})), numbers(uniform({{"seed", 4}})));
}

TEST(UniformRandom, PartsDrawTheSameNumbers) {
  const OpCall whole{
      .type = "uniform_random", .inputs = {}, .attrs = {{"shape", Longs{300, 500}}, {"seed", 3}}};
  OpCall cut = whole;
  cut.cut = true;
  EXPECT_EQ(numbers(run_op(whole).at("Out")[0]), numbers(run_op(cut).at("Out")[0]));
}

TEST(UniformRandom, SetsADiagonal) {
  const Tensor out = uniform(
      {{"shape", Longs{2, 3}}, {"seed", 1}, {"diag_num", 2}, {"diag_step", 3}, {"diag_val", 9.0f}});
  EXPECT_EQ(numbers(out)[0], 9);
  EXPECT_EQ(numbers(out)[4], 9);
  EXPECT_LT(numbers(out)[1], 1);
}

TEST(UniformRandom, TakesItsShapeFromATensor) {
  const Tensor out = run_op("uniform_random", {{"ShapeTensor", longs({2}, {3, 2})}}, {{"seed", 1}});
  EXPECT_EQ(out.shape(), (Shape{3, 2}));
}

TEST(UniformRandom, TakesOneExtentFromItsInput) {
  const Tensor out =
      run_op("uniform_random_batch_size_like", {{"Input", floats({3, 1}, {1, 1, 1})}},
             {{"shape", std::vector<int>{-1, 4}}, {"seed", 1}});
  EXPECT_EQ(out.shape(), (Shape{3, 4}));
  EXPECT_EQ(numbers(out), numbers(uniform({{"shape", Longs{3, 4}}, {"seed", 1}})));
  const Attrs normal = {{"seed", 1}, {"mean", 5.0f}, {"std", 0.5f}};
  Attrs like = normal, fixed = normal;
  like["shape"] = std::vector<int>{-1, 4};
  fixed["shape"] = Longs{3, 4};
  EXPECT_EQ(numbers(run_op("gaussian_random_batch_size_like",
                           {{"Input", floats({3, 1}, {1, 1, 1})}}, like)),
            numbers(run_op("gaussian_random", {}, fixed)));
}

TEST(UniformRandom, RefusesANegativeExtent) {
  EXPECT_THAT(error_of([] { uniform({{"shape", Longs{2, -1}}}); }), HasSubstr("shape[1] is -1"));
}

TEST(UniformRandom, RefusesAnEmptyRange) {
  EXPECT_THAT(error_of([] {
                uniform({{"min", 2.0f}, {"max", 1.0f}});
              }),
              HasSubstr("min is 2 but max is 1"));
}

TEST(GaussianRandom, HasItsMeanAndDeviation) {
  const Tensor out = run_op("gaussian_random", {},
                            {{"shape", Longs{100, 100}},
                             {"mean", 1.0f},
                             {"std", 2.0f},
                             {"seed", 5},
                             {"dtype", kFloat64}});
  EXPECT_EQ(out.dtype(), DType::float64);
  auto values = numbers(out);
  EXPECT_NEAR(mean_of(values), 1.0, 0.1);
  for (double& value : values) value = (value - 1) * (value - 1);
  EXPECT_NEAR(std::sqrt(mean_of(values)), 2.0, 0.1);
}

TEST(TruncatedGaussianRandom, StaysWithinTwoDeviations) {
  const Tensor out = run_op("truncated_gaussian_random", {},
                            {{"shape", std::vector<int>{1000}}, {"std", 0.5f}, {"seed", 5}});
  for (const double value : numbers(out)) ASSERT_LE(std::abs(value), 1.0);
}

TEST(Randint, DrawsWholeNumbersBelowHigh) {
  const Tensor out =
      run_op("randint", {}, {{"shape", Longs{200}}, {"low", -1}, {"high", 2}, {"seed", 5}});
  EXPECT_EQ(out.dtype(), DType::int64);
  const auto values = numbers(out);
  for (const double wanted : {-1.0, 0.0, 1.0}) {
    EXPECT_GT(std::count(values.begin(), values.end(), wanted), 30);
  }
  EXPECT_THAT(error_of([] {
                run_op("randint", {}, {{"shape", Longs{2}}});
              }),
              HasSubstr("low is 0 but high is 0"));
}

TEST(SamplingId, DrawsTheOnlyPossibleClass) {
  const Tensor out = run_op("sampling_id", {{"X", floats({2, 3}, {0, 1, 0, 0, 0, 1})}});
  EXPECT_EQ(out.shape(), (Shape{2}));
  EXPECT_THAT(numbers(out), ElementsAre(1, 2));
  EXPECT_THAT(error_of([] {
                run_op("sampling_id", {{"X", floats({2}, {0, 1})}});
              }),
              HasSubstr("X has 1 dimensions"));
}

TEST(Seed, HandsOnItsSeed) {
  EXPECT_THAT(numbers(run_op("seed", {}, {{"seed", 42}})), ElementsAre(42));
}

TEST(ShuffleBatch, MovesWholeRows) {
  const Tensors out = run_op({.type = "shuffle_batch",
                              .inputs = {{"X", {doubles({4, 2}, {0, 0, 1, 1, 2, 2, 3, 3})}},
                                         {"Seed", {longs({1}, {9})}}}});
  const auto rows = numbers(out.at("Out")[0]), index = numbers(out.at("ShuffleIdx")[0]);
  for (size_t i = 0; i < 4; ++i) {
    const auto at = static_cast<size_t>(index[i]);
    EXPECT_EQ(rows[2 * at], static_cast<double>(i));
    EXPECT_EQ(rows[2 * at + 1], static_cast<double>(i));
  }
  EXPECT_GT(numbers(out.at("SeedOut")[0])[0], 0);
}

}  // namespace
}  // namespace trireme::testing
