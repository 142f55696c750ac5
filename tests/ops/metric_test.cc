// Known values and wrong uses of losses, order and metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Loss, KnownValues) {
  const Tensor zero = doubles({1, 1}, {0}), one = doubles({1, 1}, {1}),
               half = doubles({1, 1}, {0.5});
  EXPECT_NEAR(
      numbers(run_op("log_loss", {{"Predicted", half}, {"Labels", one}}, {{"epsilon", 0.f}}))[0],
      std::log(2), 1e-9);
  EXPECT_NEAR(
      numbers(run_op("sigmoid_cross_entropy_with_logits", {{"X", zero}, {"Label", one}}))[0],
      std::log(2), 1e-9);
  const auto smooth = [&](double x) {
    return numbers(run_op({.type = "smooth_l1_loss",
                           .inputs = {{"X", {doubles({1, 1}, {x})}}, {"Y", {zero}}},
                           .outputs = {"Diff", "Out"}})
                       .at("Out")[0])[0];
  };
  EXPECT_DOUBLE_EQ(smooth(0.5), 0.125);
  EXPECT_DOUBLE_EQ(smooth(-3), 2.5);
  const Tensors huber = run_op({.type = "huber_loss",
                                .inputs = {{"X", {doubles({1, 1}, {3})}}, {"Y", {zero}}},
                                .attrs = {{"delta", 1.f}}});
  EXPECT_DOUBLE_EQ(numbers(huber.at("Out")[0])[0], 2.5);
  EXPECT_NEAR(numbers(run_op("bpr_loss", {{"X", doubles({1, 3}, {1, 1, 1})},
                                          {"Label", longs({1, 1}, {2})}}))[0],
              std::log(2), 1e-9);
}

TEST(Loss, SigmoidLossCountsOnlyLabelsThatAreNotIgnored) {
  const Tensor out =
      run_op("sigmoid_cross_entropy_with_logits",
             {{"X", doubles({4}, {0, 0, 0, 0})}, {"Label", doubles({4}, {1, -1, 0, -1})}},
             {{"ignore_index", -1}, {"normalize", true}});
  EXPECT_THAT(numbers(out),
              ElementsAre(DoubleEq(std::log(2) / 2), 0, DoubleEq(std::log(2) / 2), 0));
}

TEST(Loss, SigmoidLossHasItsSlopeAtZero) {
  const GradCheck check =
      check_grad({.type = "sigmoid_cross_entropy_with_logits",
                  .inputs = {{"X", {doubles({1}, {0})}}, {"Label", {doubles({1}, {1})}}}});
  EXPECT_LT(check.worst, 1e-6) << check.where;
}

TEST(Loss, WrongUsesAreNamed) {
  EXPECT_THAT(error_of([] {
                run_op("log_loss",
                       {{"Predicted", doubles({1}, {0.5})}, {"Labels", doubles({2}, {1, 1})}},
                       {{"epsilon", 0.1f}});
              }),
              HasSubstr("Predicted has shape [1] but Labels has [2]"));
  EXPECT_THAT(
      error_of([] {
        run_op("bpr_loss", {{"X", doubles({1, 3}, {1, 1, 1})}, {"Label", longs({1, 1}, {3})}});
      }),
      HasSubstr("Label[0] is 3 but X has 3 classes"));
}

TEST(Metric, TopKGivesValuesAndPlaces) {
  const Tensors out = run_op({.type = "top_k",
                              .inputs = {{"X", {floats({2, 3}, {1, 5, 3, 7, 7, 2})}}},
                              .attrs = {{"k", 2}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(5, 3, 7, 7));
  EXPECT_THAT(numbers(out.at("Indices")[0]), ElementsAre(1, 2, 0, 1));
}

TEST(Metric, TopKTakesKFromATensor) {
  const Tensors out =
      run_op({.type = "top_k_v2",
              .inputs = {{"X", {floats({1, 3}, {1, 5, 3})}}, {"K", {longs({1}, {2})}}},
              .attrs = {{"largest", false}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(1, 3));
}

TEST(Metric, ArgsortAndArgMax) {
  const Tensor x = floats({2, 2}, {4, 1, 2, 3});
  const Tensors out = run_op({.type = "argsort", .inputs = {{"X", {x}}}, .attrs = {{"axis", 0}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(2, 1, 4, 3));
  EXPECT_THAT(numbers(out.at("Indices")[0]), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(numbers(run_op("arg_max", {{"X", x}}, {{"axis", int64_t{1}}})), ElementsAre(0, 1));
  EXPECT_THAT(numbers(run_op("arg_min", {{"X", x}}, {{"axis", int64_t{0}}})), ElementsAre(1, 0));
}

TEST(Metric, AccuracyCountsRowsWithTheLabelAmongTheBest) {
  const Tensors out = run_op({.type = "accuracy",
                              .inputs = {{"Out", {floats({3, 2}, {1, 1, 1, 1, 1, 1})}},
                                         {"Indices", {longs({3, 2}, {0, 1, 2, 3, 4, 5})}},
                                         {"Label", {longs({3, 1}, {1, 0, 4})}}}});
  EXPECT_NEAR(numbers(out.at("Accuracy")[0])[0], 2. / 3, 1e-6);
  EXPECT_THAT(numbers(out.at("Correct")[0]), ElementsAre(2));
  EXPECT_THAT(numbers(out.at("Total")[0]), ElementsAre(3));
}

Tensors auc(const Tensor& predict, const Tensor& label, const Tensor& positive,
            const Tensor& negative, int slide, const char* curve = "ROC") {
  return run_op({.type = "auc",
                 .inputs = {{"Predict", {predict}},
                            {"Label", {label}},
                            {"StatPos", {positive}},
                            {"StatNeg", {negative}}},
                 .attrs = {{"num_thresholds", 100}, {"slide_steps", slide}, {"curve", curve}}});
}

TEST(Metric, AucOfAPerfectAndOfABlindGuess) {
  const Tensor zeros = filled(DType::int64, {1, 101}, 0);
  const Tensor perfect = doubles({4, 1}, {0.9, 0.8, 0.2, 0.1}),
               blind = doubles({4, 1}, {0.5, 0.5, 0.5, 0.5});
  const Tensor label = longs({4, 1}, {1, 1, 0, 0});
  EXPECT_DOUBLE_EQ(numbers(auc(perfect, label, zeros, zeros, 0).at("AUC")[0])[0], 1);
  EXPECT_DOUBLE_EQ(numbers(auc(blind, label, zeros, zeros, 0).at("AUC")[0])[0], 0.5);
  EXPECT_DOUBLE_EQ(numbers(auc(perfect, label, zeros, zeros, 0, "PR").at("AUC")[0])[0], 1);
}

// Batches slide through both layouts of the counts in the same way.
TEST(Metric, AucForgetsBatchesThatSlidOut) {
  const Tensor good = doubles({2, 1}, {0.9, 0.1}), bad = doubles({2, 1}, {0.1, 0.9});
  const Tensor label = longs({2, 1}, {1, 0});
  for (const Shape& shape : {Shape{2, 101}, Shape{3 * 101 + 1}}) {
    Tensor positive = filled(DType::int64, shape, 0), negative = positive;
    std::vector<double> areas;
    for (const Tensor& predict : {bad, good, good}) {
      const Tensors out = auc(predict, label, positive, negative, 2);
      areas.push_back(numbers(out.at("AUC")[0])[0]);
      positive = out.at("StatPosOut")[0];
      negative = out.at("StatNegOut")[0];
    }
    EXPECT_THAT(areas, ElementsAre(0, 0.5, 1)) << shape;
  }
}

TEST(Metric, WrongUsesAreNamed) {
  EXPECT_THAT(error_of([] {
                run_op("top_k", {{"X", floats({1, 2}, {1, 2})}}, {{"k", 3}});
              }),
              HasSubstr("k is 3 but dimension 1 of X [1, 2] has 2 elements"));
  EXPECT_THAT(error_of([] {
                run_op("arg_max", {{"X", floats({2}, {1, 2})}}, {{"axis", int64_t{1}}});
              }),
              HasSubstr("axis is 1"));
  EXPECT_THAT(error_of([] {
                const Tensor zeros = filled(DType::int64, {1, 101}, 0);
                auc(doubles({1, 1}, {1.5}), longs({1, 1}, {1}), zeros, zeros, 0);
              }),
              HasSubstr("Predict[0] is 1.5, which is no probability"));
  EXPECT_THAT(error_of([] {
                const Tensor zeros = filled(DType::int64, {1, 5}, 0);
                auc(doubles({1, 1}, {0.5}), longs({1, 1}, {1}), zeros, zeros, 0);
              }),
              HasSubstr("StatPos has 5 counts"));
}

}  // namespace
}  // namespace trireme::testing
