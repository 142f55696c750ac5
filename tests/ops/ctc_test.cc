// The CTC loss against the sum over all paths; labels read off paths.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/small.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kClasses = 3;

Tensor ints(const Shape& shape, const std::vector<int32_t>& values) {
  return make_tensor<int32_t>(shape, std::span<const int32_t>(values));
}

// The probability of the labels: that of every path which gives them, added up.
double by_paths(const double* logits, int64_t time, const std::vector<int64_t>& labels,
                int64_t blank) {
  double total = 0;
  const auto paths = static_cast<int64_t>(std::pow(kClasses, time));
  for (int64_t code = 0; code < paths; ++code) {
    std::vector<int64_t> found;
    double probability = 1;
    int64_t rest = code, before = -1;
    for (int64_t t = 0; t < time; ++t, rest /= kClasses) {
      const int64_t now = rest % kClasses;
      double sum = 0;
      for (int64_t j = 0; j < kClasses; ++j) sum += std::exp(logits[t * kClasses + j]);
      probability *= std::exp(logits[t * kClasses + now]) / sum;
      if (now != blank && now != before) found.push_back(now);
      before = now;
    }
    if (found == labels) total += probability;
  }
  return total;
}

TEST(WarpCtc, IsTheSumOverAllPaths) {
  const Tensor logits = Draw(5).uniform({9, kClasses}, -2, 2);
  for (const int blank : {0, 2}) {
    const int other = blank == 0 ? 2 : 0;
    const Tensors out = run_op(
        OpCall{.type = "warpctc",
               .inputs = {{"Logits", {with_lod(logits, {{0, 4, 9}})}},
                          {"Label", {with_lod(ints({4, 1}, {1, 1, other, 1}), {{0, 2, 4}})}}},
               .attrs = {{"blank", blank}}});
    const std::vector<double> loss = numbers(out.at("Loss")[0]);
    const double* x = logits.data<double>();
    EXPECT_NEAR(loss[0], -std::log(by_paths(x, 4, {1, 1}, blank)), 1e-12);
    EXPECT_NEAR(loss[1], -std::log(by_paths(x + 4 * kClasses, 5, {other, 1}, blank)), 1e-12);
  }
}

TEST(WarpCtc, PaddedIsTimeFirst) {
  const Tensor logits = Draw(6).uniform({4, 2, kClasses}, -2, 2);
  std::vector<double> first, second;
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t j = 0; j < kClasses; ++j) {
      first.push_back(logits.data<double>()[t * 2 * kClasses + j]);
      second.push_back(logits.data<double>()[(t * 2 + 1) * kClasses + j]);
    }
  }
  const Tensors out = run_op(OpCall{.type = "warpctc",
                                    .inputs = {{"Logits", {logits}},
                                               {"Label", {ints({2, 2}, {1, 2, 2, 0})}},
                                               {"LogitsLength", {longs({2}, {4, 3})}},
                                               {"LabelLength", {longs({2}, {2, 1})}}}});
  const std::vector<double> loss = numbers(out.at("Loss")[0]);
  EXPECT_NEAR(loss[0], -std::log(by_paths(first.data(), 4, {1, 2}, 0)), 1e-12);
  EXPECT_NEAR(loss[1], -std::log(by_paths(second.data(), 3, {2}, 0)), 1e-12);
}

TEST(WarpCtc, TooFewStepsCostNothing) {
  const Tensors out =
      run_op(OpCall{.type = "warpctc",
                    .inputs = {{"Logits", {with_lod(Draw(7).uniform({2, kClasses}), {{0, 2}})}},
                               {"Label", {with_lod(ints({2, 1}, {1, 1}), {{0, 2}})}}}});
  EXPECT_THAT(numbers(out.at("Loss")[0]), ElementsAre(0));
  for (const double value : numbers(out.at("WarpCTCGrad")[0])) EXPECT_EQ(value, 0);
}

TEST(WarpCtc, NormByTimesDividesTheGradientAlone) {
  const auto gradient = [](bool by_times) {
    return run_op(OpCall{.type = "warpctc_grad",
                         .inputs = {{"WarpCTCGrad", {filled(DType::float64, {3, 2, 2}, 6)}},
                                    {"Logits", {filled(DType::float64, {3, 2, 2}, 0)}},
                                    {"LogitsLength", {longs({2}, {3, 2})}},
                                    {"Loss@GRAD", {doubles({2, 1}, {1, 2})}}},
                         .attrs = {{"norm_by_times", by_times}},
                         .outputs = {"Logits@GRAD"}})
        .at("Logits@GRAD")[0];
  };
  EXPECT_THAT(numbers(gradient(false)), ElementsAre(6, 6, 12, 12, 6, 6, 12, 12, 6, 6, 0, 0));
  EXPECT_THAT(numbers(gradient(true)), ElementsAre(2, 2, 6, 6, 2, 2, 6, 6, 2, 2, 0, 0));
}

TEST(WarpCtc, WrongLabelsAndBlanksAreNamed) {
  const auto run = [](int32_t label, int blank) {
    run_op(OpCall{.type = "warpctc",
                  .inputs = {{"Logits", {with_lod(Draw(7).uniform({2, kClasses}), {{0, 2}})}},
                             {"Label", {with_lod(ints({1, 1}, {label}), {{0, 1}})}}},
                  .attrs = {{"blank", blank}}});
  };
  EXPECT_THAT(error_of([&] { run(3, 0); }), HasSubstr("Label holds 3 but Logits has 3 classes"));
  EXPECT_THAT(error_of([&] { run(1, 3); }), HasSubstr("blank is 3 but Logits has 3 classes"));
}

TEST(CtcAlign, MergesRepeatsThenDropsBlanks) {
  const Tensor path = with_lod(longs({9, 1}, {0, 1, 1, 0, 1, 2, 2, 0, 0}), {{0, 5, 7, 9}});
  const Tensor labels = run_op("ctc_align", {{"Input", path}});
  EXPECT_THAT(numbers(labels), ElementsAre(1, 1, 2));
  EXPECT_EQ(labels.lod(), (Lod{{0, 2, 3, 3}}));
  EXPECT_EQ(labels.shape(), Shape({3, 1}));
  const Tensor kept = run_op("ctc_align", {{"Input", path}}, {{"merge_repeated", false}});
  EXPECT_THAT(numbers(kept), ElementsAre(1, 1, 1, 2, 2));
}

TEST(CtcAlign, NoLabelAtAllIsOneRowOfMinusOne) {
  const Tensor labels = run_op("ctc_align", {{"Input", with_lod(longs({2, 1}, {0, 0}), {{0, 2}})}});
  EXPECT_THAT(numbers(labels), ElementsAre(-1));
}

TEST(CtcAlign, PaddedRowsAreFilledUp) {
  const Tensors out = run_op(OpCall{.type = "ctc_align",
                                    .inputs = {{"Input", {longs({2, 4}, {1, 1, 2, 2, 3, 0, 3, 3})}},
                                               {"InputLength", {longs({2, 1}, {3, 4})}}},
                                    .attrs = {{"padding_value", 8}},
                                    .outputs = {"Output", "OutputLength"}});
  EXPECT_THAT(numbers(out.at("Output")[0]), ElementsAre(1, 2, 8, 8, 3, 3, 8, 8));
  EXPECT_THAT(numbers(out.at("OutputLength")[0]), ElementsAre(2, 2));
  EXPECT_THAT(error_of([] {
                run_op("ctc_align", {{"Input", longs({2, 2}, {1, 1, 1, 1})}});
              }),
              HasSubstr("Input has shape [2, 2]"));
}

}  // namespace
}  // namespace trireme::testing
