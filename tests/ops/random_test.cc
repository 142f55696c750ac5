// What random ops draw, when it repeats, and what they refuse.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/support/op_runner.h"
#include "tests/support/seed.h"

namespace trireme::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Lt;

using Longs = std::vector<int64_t>;
constexpr int kFloat64 = static_cast<int>(DType::float64);

// Other numbers in every run of the tests.
int fresh_seed() { return static_cast<int>(test_seed() % 1000000007) + 1; }

// The test of Kolmogorov and Smirnov: the largest distance between the share of values below x and
// the probability of that, times the root of their count. Above 3 once in 3e7 times.
double distance_from(std::vector<double> values, const std::function<double(double)>& below) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double p = below(values[i]), share = static_cast<double>(i) / n;
    worst = std::max({worst, std::fabs(p - share), std::fabs(p - share - 1 / n)});
  }
  return worst * std::sqrt(n);
}
constexpr double kFarthest = 3;

double normal_below(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

// Pearson's sum over classes. With up to 4 classes above 45 once in 1e9 times.
double chi_square(const std::vector<double>& drawn, const std::vector<double>& probabilities) {
  const auto n = static_cast<double>(drawn.size());
  double sum = 0;
  for (size_t c = 0; c < probabilities.size(); ++c) {
    const auto found = static_cast<double>(std::count(drawn.begin(), drawn.end(), c));
    const double wanted = n * probabilities[c];
    sum += (found - wanted) * (found - wanted) / wanted;
  }
  return sum;
}
constexpr double kUnlikeliest = 45;

Tensor uniform(Attrs attrs) {
  attrs.try_emplace("shape", Longs{40, 50});
  return run_op("uniform_random", {}, std::move(attrs));
}

TEST(UniformRandom, FillsItsRangeEvenly) {
  const auto values = numbers(
      uniform({{"shape", Longs{200, 200}}, {"seed", fresh_seed()}, {"min", 2.0f}, {"max", 4.0f}}));
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 2.0);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 4.0);
  EXPECT_LT(distance_from(values, [](double x) { return (x - 2) / 2; }), kFarthest);
}

// Any of the input's extents, to any place: 20 x 5 x 300 numbers.
TEST(BatchSizeLike, DrawsFromItsDistribution) {
  const Tensor input = filled(DType::float32, {5, 300}, 1);
  const Attrs shape = {{"shape", std::vector<int>{20, 5, -1}},
                       {"input_dim_idx", 1},
                       {"output_dim_idx", 2},
                       {"seed", fresh_seed()}};
  Attrs even = shape, normal = shape;
  even.insert({{"min", -1.0f}, {"max", 3.0f}});
  normal.insert({{"mean", 5.0f}, {"std", 0.5f}});
  const Tensor flat = run_op("uniform_random_batch_size_like", {{"Input", input}}, even);
  EXPECT_EQ(flat.shape(), (Shape{20, 5, 300}));
  EXPECT_LT(distance_from(numbers(flat), [](double x) { return (x + 1) / 4; }), kFarthest);
  const Tensor bell = run_op("gaussian_random_batch_size_like", {{"Input", input}}, normal);
  EXPECT_EQ(bell.shape(), (Shape{20, 5, 300}));
  EXPECT_LT(distance_from(numbers(bell), [](double x) { return normal_below((x - 5) / 0.5); }),
            kFarthest);
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
  EXPECT_THAT(numbers(out), Each(AllOf(Ge(-1), Lt(1))));
  EXPECT_NE(numbers(out)[0], numbers(out)[1]);
  const Tensor normal =
      run_op("gaussian_random_batch_size_like", {{"Input", floats({3, 1}, {1, 1, 1})}},
             {{"shape", std::vector<int>{-1, 4}}, {"seed", 1}, {"mean", 5.0f}});
  EXPECT_EQ(normal.shape(), (Shape{3, 4}));
  EXPECT_THAT(numbers(normal), Each(AllOf(Gt(-1), Lt(11))));  // six deviations
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

TEST(GaussianRandom, IsNormal) {
  const Tensor out = run_op("gaussian_random", {},
                            {{"shape", Longs{100, 100}},
                             {"mean", 1.0f},
                             {"std", 2.0f},
                             {"seed", fresh_seed()},
                             {"dtype", kFloat64}});
  EXPECT_EQ(out.dtype(), DType::float64);
  EXPECT_LT(distance_from(numbers(out), [](double x) { return normal_below((x - 1) / 2); }),
            kFarthest);
}

TEST(TruncatedGaussianRandom, IsNormalWithinTwoDeviations) {
  const Tensor out = run_op(
      "truncated_gaussian_random", {},
      {{"shape", std::vector<int>{30000}}, {"mean", 3.0f}, {"std", 0.5f}, {"seed", fresh_seed()}});
  const auto values = numbers(out);
  for (const double value : values) ASSERT_LE(std::fabs(value - 3), 1.0);
  const double outside = normal_below(-2);
  const auto below = [&](double x) {
    return (normal_below((x - 3) / 0.5) - outside) / (1 - 2 * outside);
  };
  EXPECT_LT(distance_from(values, below), kFarthest);
}

TEST(Randint, DrawsWholeNumbersBelowHigh) {
  const Tensor out = run_op(
      "randint", {}, {{"shape", Longs{6000}}, {"low", -1}, {"high", 2}, {"seed", fresh_seed()}});
  EXPECT_EQ(out.dtype(), DType::int64);
  auto values = numbers(out);
  for (double& value : values) value += 1;
  EXPECT_THAT(values, Each(::testing::AnyOf(0, 1, 2)));
  EXPECT_LT(chi_square(values, {1.0 / 3, 1.0 / 3, 1.0 / 3}), kUnlikeliest);
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

TEST(SamplingId, DrawsEachClassAsOftenAsItIsLikely) {
  const std::vector<double> likely = {0.1, 0.25, 0.05, 0.6};
  constexpr int64_t kDrawn = 8000;
  std::vector<double> rows;
  for (int64_t i = 0; i < kDrawn; ++i) rows.insert(rows.end(), likely.begin(), likely.end());
  const auto drawn =
      numbers(run_op("sampling_id", {{"X", doubles({kDrawn, 4}, rows)}}, {{"seed", fresh_seed()}}));
  EXPECT_LT(chi_square(drawn, likely), kUnlikeliest);
  // Numbers from [0.375, 1) fall into the last two classes alone.
  const auto high = numbers(run_op("sampling_id", {{"X", doubles({kDrawn, 4}, rows)}},
                                   {{"seed", fresh_seed()}, {"min", 0.375f}}));
  EXPECT_EQ(std::count(high.begin(), high.end(), 0) + std::count(high.begin(), high.end(), 1), 0);
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
