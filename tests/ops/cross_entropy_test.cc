// The cross entropies: known losses, skipped rows, and labels that are no class.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Tensor kHalves = doubles({2, 2}, {0.5, 0.5, 0.25, 0.75});

TEST(CrossEntropy, IsMinusTheLogOfTheLabelsProbability) {
  const Tensor out = run_op("cross_entropy", {{"X", kHalves}, {"Label", longs({2, 1}, {0, 1})}});
  EXPECT_EQ(out.shape(), (Shape{2, 1}));
  EXPECT_NEAR(numbers(out)[0], std::log(2), 1e-12);
  EXPECT_NEAR(numbers(out)[1], -std::log(0.75), 1e-12);
}

TEST(CrossEntropy, SoftLabelsWeighEveryClass) {
  const Tensor out =
      run_op("cross_entropy", {{"X", kHalves}, {"Label", kHalves}}, {{"soft_label", true}});
  EXPECT_NEAR(numbers(out)[0], std::log(2), 1e-12);
  EXPECT_NEAR(numbers(out)[1], -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-12);
}

TEST(CrossEntropy, IgnoredRowsCostNothing) {
  const Tensor out = run_op("cross_entropy", {{"X", kHalves}, {"Label", longs({2, 1}, {7, 1})}},
                            {{"ignore_index", 7}});
  EXPECT_EQ(numbers(out)[0], 0);
}

TEST(CrossEntropy, AProbabilityOfZeroCostsALot) {
  const Tensor out =
      run_op("cross_entropy", {{"X", doubles({1, 2}, {0, 1})}, {"Label", longs({1, 1}, {0})}});
  EXPECT_EQ(numbers(out)[0], 1e20);
}

TEST(CrossEntropy, NamesALabelThatIsNoClass) {
  for (const char* type : {"cross_entropy", "cross_entropy2"}) {
    const std::string what = error_of([&] {
      run_op(type, {{"X", kHalves}, {"Label", longs({2, 1}, {0, 2})}});
    });
    EXPECT_THAT(what, HasSubstr("label 2 at position 1 is outside the 2 classes"));
    EXPECT_THAT(what, HasSubstr("feed labels from 0 to 1"));
  }
}

TEST(CrossEntropy, RefusesLabelsOfAnotherShape) {
  EXPECT_THAT(error_of([] {
                run_op("cross_entropy", {{"X", kHalves}, {"Label", longs({3, 1}, {0, 1, 0})}});
              }),
              HasSubstr("give Label the shape [2, 1]"));
}

TEST(CrossEntropy2, KeepsTheProbabilitiesForItsGradient) {
  const Tensors out = run_op({.type = "cross_entropy2",
                              .inputs = {{"X", {kHalves}}, {"Label", {longs({2, 1}, {1, -100})}}}});
  EXPECT_THAT(numbers(out.at("MatchX")[0]), ElementsAre(0.5, 1));
  EXPECT_NEAR(numbers(out.at("Y")[0])[0], std::log(2), 1e-12);
  EXPECT_EQ(numbers(out.at("Y")[0])[1], 0);
  EXPECT_EQ(out.at("XShape")[0].shape(), (Shape{0, 2, 2}));
}

TEST(SoftmaxWithCrossEntropy, TakesLogits) {
  const Tensors out = run_op({.type = "softmax_with_cross_entropy",
                              .inputs = {{"Logits", {doubles({1, 2}, {0, std::log(3)})}},
                                         {"Label", {longs({1, 1}, {0})}}}});
  EXPECT_NEAR(numbers(out.at("Loss")[0])[0], std::log(4), 1e-12);
  EXPECT_NEAR(numbers(out.at("Softmax")[0])[1], 0.75, 1e-12);
}

TEST(SoftmaxWithCrossEntropy, StaysFiniteForLogitsFarApart) {
  const Tensors out = run_op(
      {.type = "softmax_with_cross_entropy",
       .inputs = {{"Logits", {floats({1, 2}, {1000, -1000})}}, {"Label", {longs({1, 1}, {1})}}}});
  EXPECT_FLOAT_EQ(static_cast<float>(numbers(out.at("Loss")[0])[0]), 2000);
}

TEST(SoftmaxWithCrossEntropy, ClassesMayLieAlongAnyAxis) {
  const Tensors out = run_op({.type = "softmax_with_cross_entropy",
                              .inputs = {{"Logits", {doubles({2, 2}, {0, 1, std::log(3), 1})}},
                                         {"Label", {longs({1, 2}, {0, -100})}}},
                              .attrs = {{"axis", 0}}});
  EXPECT_EQ(out.at("Loss")[0].shape(), (Shape{1, 2}));
  EXPECT_NEAR(numbers(out.at("Loss")[0])[0], std::log(4), 1e-12);
  EXPECT_EQ(numbers(out.at("Loss")[0])[1], 0);
}

TEST(SoftmaxWithCrossEntropy, NamesALabelThatIsNoClass) {
  EXPECT_THAT(error_of([] {
                run_op({.type = "softmax_with_cross_entropy",
                        .inputs = {{"Logits", {kHalves}}, {"Label", {longs({2, 1}, {-1, 0})}}}});
              }),
              HasSubstr("label -1 at position 0 is outside the 2 classes"));
}

}  // namespace
}  // namespace trireme::testing
