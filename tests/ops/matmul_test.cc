// Known products, vectors, stacks, and the errors for operands that do not fit.
#include <gmock/gmock.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Tensor kTwoByThree = doubles({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Mul, MultipliesMatrices) {
  const Tensor out = run_op("mul", {{"X", kTwoByThree}, {"Y", doubles({3, 1}, {1, 0, -1})}});
  EXPECT_EQ(out.shape(), (Shape{2, 1}));
  EXPECT_THAT(numbers(out), ElementsAre(-2, -2));
}

TEST(Mul, FlattensAsTheAttributesSay) {
  const Tensor out = run_op(
      "mul",
      {{"X", doubles({1, 2, 1, 2}, {1, 2, 3, 4})}, {"Y", doubles({1, 2, 3}, {1, 2, 3, 4, 5, 6})}},
      {{"x_num_col_dims", 2}, {"y_num_col_dims", 2}});
  EXPECT_EQ(out.shape(), (Shape{1, 2, 3}));
  EXPECT_THAT(numbers(out), ElementsAre(9, 12, 15, 19, 26, 33));
}

TEST(Mul, KeepsTheSequencesOfX) {
  Tensor x = kTwoByThree.clone();
  x.set_lod({{0, 1, 2}});
  EXPECT_EQ(run_op("mul", {{"X", x}, {"Y", doubles({3, 1}, {1, 1, 1})}}).lod(), (Lod{{0, 1, 2}}));
}

TEST(Mul, SaysBothSizesThatDiffer) {
  const std::string what = error_of([] {
    run_op("mul", {{"X", kTwoByThree}, {"Y", doubles({2, 1}, {1, 1})}});
  });
  EXPECT_THAT(what, HasSubstr("X has 3 columns but Y has 2 rows"));
  EXPECT_THAT(what, HasSubstr("fix: give Y the shape [3, n]"));
}

TEST(Mul, RefusesOperandsOfTwoTypes) {
  EXPECT_THAT(error_of([] {
                run_op("mul", {{"X", kTwoByThree}, {"Y", floats({3, 1}, {1, 1, 1})}});
              }),
              HasSubstr("X is float64 but Y is float32"));
}

TEST(Matmul, ScalesTheProductByAlpha) {
  const Tensor out = run_op("matmul", {{"X", kTwoByThree}, {"Y", kTwoByThree}},
                            {{"transpose_Y", true}, {"alpha", 0.5f}});
  EXPECT_THAT(numbers(out), ElementsAre(7, 16, 16, 38.5));
}

TEST(Matmul, VectorsMakeOneNumberOrAMatrix) {
  const Tensor x = doubles({2}, {1, 2}), y = doubles({2}, {3, 4});
  const Tensor inner = run_op("matmul", {{"X", x}, {"Y", y}});
  EXPECT_EQ(inner.shape(), (Shape{1}));
  EXPECT_THAT(numbers(inner), ElementsAre(11));
  const Tensor outer =
      run_op("matmul", {{"X", x}, {"Y", y}}, {{"transpose_X", true}, {"transpose_Y", true}});
  EXPECT_EQ(outer.shape(), (Shape{2, 2}));
  EXPECT_THAT(numbers(outer), ElementsAre(3, 4, 6, 8));
}

TEST(Matmul, AStackTimesOneMatrix) {
  const Tensor out = run_op(
      "matmul", {{"X", doubles({2, 1, 2}, {1, 2, 3, 4})}, {"Y", doubles({2, 2}, {0, 1, 1, 0})}});
  EXPECT_EQ(out.shape(), (Shape{2, 1, 2}));
  EXPECT_THAT(numbers(out), ElementsAre(2, 1, 4, 3));
}

TEST(Matmul, SaysHowManyMatricesEachStackHolds) {
  EXPECT_THAT(error_of([] {
                run_op("matmul", {{"X", filled(DType::float64, {2, 1, 2}, 1)},
                                  {"Y", filled(DType::float64, {3, 2, 1}, 1)}});
              }),
              HasSubstr("X holds 2 matrices but Y holds 3"));
}

TEST(MatmulV2, BroadcastsLeadingDimensions) {
  const Tensor out = run_op(
      "matmul_v2", {{"X", doubles({2, 1, 1, 1}, {2, 3})}, {"Y", doubles({2, 1, 1}, {5, 7})}});
  EXPECT_EQ(out.shape(), (Shape{2, 2, 1, 1}));
  EXPECT_THAT(numbers(out), ElementsAre(10, 14, 15, 21));
}

TEST(MatmulV2, DropsTheDimensionOfAVector) {
  const Tensor out = run_op("matmul_v2", {{"X", kTwoByThree}, {"Y", doubles({3}, {1, 1, 1})}});
  EXPECT_EQ(out.shape(), (Shape{2}));
  EXPECT_THAT(numbers(out), ElementsAre(6, 15));
}

TEST(MatmulV2, SaysWhichLeadingDimensionsDiffer) {
  EXPECT_THAT(error_of([] {
                run_op("matmul_v2", {{"X", filled(DType::float64, {2, 1, 2}, 1)},
                                     {"Y", filled(DType::float64, {3, 2, 1}, 1)}});
              }),
              HasSubstr("leading dimension 0 is 2 in X but 3 in Y"));
}

TEST(BilinearTensorProduct, IsXTimesWeightTimesYForEveryMap) {
  const Tensor out =
      run_op("bilinear_tensor_product", {{"X", doubles({1, 2}, {1, 2})},
                                         {"Y", doubles({1, 3}, {3, 4, 5})},
                                         {"Weight", doubles({2, 2, 3}, {1, 0, 0, 0, 1, 0,  //
                                                                        0, 0, 1, 1, 0, 0})},
                                         {"Bias", doubles({1, 2}, {0.5, 0})}});
  EXPECT_EQ(numbers(out), (std::vector<double>{3 + 8 + 0.5, 5 + 6}));
}

}  // namespace
}  // namespace trireme::testing
