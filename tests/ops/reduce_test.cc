// Known values and wrong uses of reductions, scale, sum, clip and their neighbours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Tensor& grid() {
  static const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  return x;
}
std::vector<int32_t> dims(std::vector<int32_t> values) { return values; }

TEST(Reduce, FoldsTheNamedDimensions) {
  EXPECT_THAT(numbers(run_op("reduce_sum", {{"X", grid()}}, {{"dim", dims({0})}})),
              ElementsAre(5, 7, 9));
  EXPECT_THAT(numbers(run_op("reduce_mean", {{"X", grid()}}, {{"dim", dims({-1})}})),
              ElementsAre(2, 5));
  EXPECT_THAT(numbers(run_op("reduce_max", {{"X", grid()}}, {{"dim", dims({1})}})),
              ElementsAre(3, 6));
  EXPECT_THAT(numbers(run_op("reduce_min", {{"X", grid()}}, {{"dim", dims({0})}})),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(numbers(run_op("reduce_prod", {{"X", grid()}}, {{"dim", dims({0, 1})}})),
              ElementsAre(720));
}

TEST(Reduce, AllDimensionsGiveOneElement) {
  EXPECT_EQ(run_op("reduce_sum", {{"X", grid()}}, {{"reduce_all", true}}).shape(), (Shape{1}));
  EXPECT_EQ(
      run_op("reduce_sum", {{"X", grid()}}, {{"reduce_all", true}, {"keep_dim", true}}).shape(),
      (Shape{1, 1}));
  EXPECT_THAT(numbers(run_op("mean", {{"X", grid()}})), ElementsAre(3.5));
  EXPECT_THAT(numbers(run_op("squared_l2_norm", {{"X", grid()}})), ElementsAre(91));
}

TEST(Reduce, SumsOfManySmallTermsKeepTheirDigits) {
  const int64_t n = 1 << 22;
  const Tensor x = filled(DType::float32, {n}, 0.1);
  const double mean = numbers(run_op("mean", {{"X", x}}))[0];
  EXPECT_FLOAT_EQ(static_cast<float>(mean), 0.1f);
}

TEST(Reduce, ProductsWithAZeroHaveAGradient) {
  const GradCheck check = check_grad({.type = "reduce_prod",
                                      .inputs = {{"X", {doubles({2, 2}, {0, 2, 3, 4})}}},
                                      .attrs = {{"reduce_all", true}}});
  EXPECT_LT(check.worst, 1e-6) << check.where;
}

TEST(Reduce, AllAndAny) {
  const Tensor x = cast(floats({2, 2}, {1, 0, 1, 1}), DType::boolean);
  EXPECT_THAT(numbers(run_op("reduce_all", {{"X", x}}, {{"dim", dims({1})}})), ElementsAre(0, 1));
  EXPECT_THAT(numbers(run_op("reduce_any", {{"X", x}}, {{"dim", dims({1})}})), ElementsAre(1, 1));
}

TEST(Reduce, CumsumRunsBothWaysAndLeavesTheElementOut) {
  EXPECT_THAT(numbers(run_op("cumsum", {{"X", grid()}})), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(numbers(run_op("cumsum", {{"X", grid()}}, {{"axis", 0}})),
              ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(numbers(run_op("cumsum", {{"X", grid()}}, {{"reverse", true}, {"exclusive", true}})),
              ElementsAre(5, 3, 0, 11, 6, 0));
}

TEST(Reduce, NormGivesLengthOne) {
  const Tensors out =
      run_op({.type = "norm", .inputs = {{"X", {floats({1, 2}, {3, 4})}}}, .attrs = {{"axis", 1}}});
  EXPECT_NEAR(numbers(out.at("Norm")[0])[0], 5, 1e-6);
  EXPECT_NEAR(numbers(out.at("Out")[0])[1], 0.8, 1e-6);
}

TEST(Reduce, AnAxisOutsideIsNamed) {
  const std::string what = error_of([] {
    run_op("reduce_sum", {{"X", grid()}}, {{"dim", dims({2})}});
  });
  EXPECT_THAT(what, HasSubstr("dim is 2"));
}

TEST(Math, ScaleAddsBeforeOrAfter) {
  EXPECT_THAT(
      numbers(run_op("scale", {{"X", floats({2}, {1, 2})}}, {{"scale", 3.f}, {"bias", 1.f}})),
      ElementsAre(4, 7));
  EXPECT_THAT(numbers(run_op("scale", {{"X", floats({2}, {1, 2})}},
                             {{"scale", 3.f}, {"bias", 1.f}, {"bias_after_scale", false}})),
              ElementsAre(6, 9));
  EXPECT_THAT(
      numbers(run_op("scale", {{"X", floats({2}, {1, 2})}, {"ScaleTensor", floats({1}, {5})}})),
      ElementsAre(5, 10));
}

TEST(Math, SumAddsAList) {
  const Tensor a = floats({2}, {1, 2}), b = floats({2}, {10, 20}), c = floats({2}, {100, 200});
  const Tensors out = run_op({.type = "sum", .inputs = {{"X", {a, b, c}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(111, 222));
  EXPECT_THAT(numbers(run_op("sum", {{"X", a}})), ElementsAre(1, 2));
}

TEST(Math, SumOfDifferentShapesIsRefused) {
  const std::string what = error_of([] {
    run_op({.type = "sum", .inputs = {{"X", {floats({2}, {1, 2}), floats({1}, {1})}}}});
  });
  EXPECT_THAT(what, HasSubstr("X[1] has shape [1] but X[0] has [2]"));
}

TEST(Math, CastTruncatesTowardsZero) {
  const Tensor out = run_op("cast", {{"X", floats({3}, {-1.7f, 0.2f, 2.9f})}},
                            {{"in_dtype", 5}, {"out_dtype", 3}});
  EXPECT_EQ(out.dtype(), DType::int64);
  EXPECT_THAT(numbers(out), ElementsAre(-1, 0, 2));
}

TEST(Math, ClipSignIncrement) {
  EXPECT_THAT(numbers(run_op("clip", {{"X", grid()}}, {{"min", 2.f}, {"max", 5.f}})),
              ElementsAre(2, 2, 3, 4, 5, 5));
  EXPECT_THAT(numbers(run_op("sign", {{"X", floats({3}, {-2, 0, 7})}})), ElementsAre(-1, 0, 1));
  EXPECT_THAT(numbers(run_op("increment", {{"X", longs({1}, {41})}})), ElementsAre(42));
}

TEST(Math, ClipWithMaxBelowMinIsRefused) {
  const std::string what = error_of([] {
    run_op("clip", {{"X", grid()}}, {{"min", 2.f}, {"max", 1.f}});
  });
  EXPECT_THAT(what, HasSubstr("min is 2 and max is 1"));
}

TEST(Math, IncrementTakesOneNumber) {
  const std::string what = error_of([] { run_op("increment", {{"X", grid()}}); });
  EXPECT_THAT(what, HasSubstr("X has shape [2, 3] but must be one number"));
}

TEST(Math, LabelSmoothMixesInThePrior) {
  const Tensor out =
      run_op("label_smooth", {{"X", doubles({1, 4}, {0, 1, 0, 0})}}, {{"epsilon", 0.2f}});
  EXPECT_NEAR(numbers(out)[0], 0.05, 1e-7);
  EXPECT_NEAR(numbers(out)[1], 0.85, 1e-7);
}

TEST(Math, CosSimOfOneRowAgainstMany) {
  const Tensor out =
      run_op("cos_sim", {{"X", floats({2, 2}, {1, 0, 1, 1})}, {"Y", floats({1, 2}, {0, 2})}});
  EXPECT_EQ(out.shape(), (Shape{2, 1}));
  EXPECT_NEAR(numbers(out)[0], 0, 1e-6);
  EXPECT_NEAR(numbers(out)[1], std::sqrt(0.5), 1e-6);
  // One number, under three dimensions and, as a row, under two.
  const Tensor signs =
      run_op("cos_sim", {{"X", floats({2, 1, 1}, {3, -2})}, {"Y", floats({1, 1, 1}, {4})}});
  EXPECT_EQ(signs.shape(), (Shape{2, 1}));
  EXPECT_NEAR(numbers(signs)[0], 1, 1e-6);
  EXPECT_NEAR(numbers(signs)[1], -1, 1e-6);
}

}  // namespace
}  // namespace trireme::testing
