// sample_logits, data_norm, im2sequence and interpolation on small numbers.
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "tests/support/op_runner.h"
#include "tests/support/scope_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SampleLogits, TakesGivenSamplesAndCorrectsByTheirProbability) {
  const Tensors out =
      run_op(OpCall{.type = "sample_logits",
                    .inputs = {{"Logits", {doubles({1, 4}, {1, 2, 3, 4})}},
                               {"Labels", {longs({1, 1}, {2})}},
                               {"CustomizedSamples", {longs({1, 3}, {2, 0, 2})}},
                               {"CustomizedProbabilities", {doubles({1, 3}, {0.5, 0.25, 0.5})}}},
                    .attrs = {{"num_samples", 2}, {"use_customized_samples", true}}});
  const std::vector<double> logits = numbers(out.at("SampledLogits")[0]);
  EXPECT_NEAR(logits[0], 3 - std::log(0.5), 1e-12);
  EXPECT_NEAR(logits[1], 1 - std::log(0.25), 1e-12);
  EXPECT_LT(logits[2], -1e19);  // a label of the row, drawn by accident
  EXPECT_THAT(numbers(out.at("SampledLabels")[0]), ElementsAre(0));
}

TEST(SampleLogits, DrawsDifferentClassesOnceForAllRows) {
  const Tensors out = run_op(OpCall{.type = "sample_logits",
                                    .inputs = {{"Logits", {filled(DType::float32, {2, 9}, 0)}},
                                               {"Labels", {longs({2, 1}, {8, 7})}}},
                                    .attrs = {{"num_samples", 6}, {"seed", 2}}});
  const std::vector<double> samples = numbers(out.at("Samples")[0]);
  EXPECT_EQ(samples[0], 8);
  EXPECT_EQ(samples[7], 7);
  EXPECT_EQ(std::set<double>(samples.begin() + 1, samples.begin() + 7).size(), 6u);
  EXPECT_TRUE(std::equal(samples.begin() + 1, samples.begin() + 7, samples.begin() + 8));
  EXPECT_THAT(error_of([] {
                run_op(OpCall{.type = "sample_logits",
                              .inputs = {{"Logits", {filled(DType::float32, {1, 3}, 0)}},
                                         {"Labels", {longs({1, 1}, {0})}}},
                              .attrs = {{"num_samples", 4}}});
              }),
              HasSubstr("num_samples is 4 but there are 3 classes"));
}

OpCall norm_call(Attrs attrs = {}) {
  return {.type = "data_norm",
          .inputs = {{"X", {doubles({2, 2}, {1, 2, 3, 6})}},
                     {"BatchSize", {doubles({2}, {4, 4})}},
                     {"BatchSum", {doubles({2}, {4, 8})}},
                     {"BatchSquareSum", {doubles({2}, {1, 16})}}},
          .attrs = std::move(attrs)};
}

TEST(DataNorm, NormalisesByTheStatistics) {
  EXPECT_THAT(numbers(run_op(norm_call()).at("Y")[0]), ElementsAre(0, 0, 4, 2));
  OpCall shifted = norm_call({{"enable_scale_and_shift", true}});
  shifted.inputs["scale_w"] = {doubles({2}, {2, 1})};
  shifted.inputs["bias"] = {doubles({2}, {0.5, 0})};
  EXPECT_THAT(numbers(run_op(shifted).at("Y")[0]), ElementsAre(0.5, 0, 8.5, 2));
}

TEST(DataNorm, ASlotThatBeginsWithZeroStaysZero) {
  OpCall call = norm_call({{"slot_dim", 2}});
  call.inputs["X"] = {doubles({2, 2}, {0, 2, 3, 6})};
  EXPECT_THAT(numbers(run_op(call).at("Y")[0]), ElementsAre(0, 0, 4, 2));
  call.attrs["slot_dim"] = 3;
  EXPECT_THAT(error_of([&] { run_op(call); }), HasSubstr("slot_dim is 3 but X has 2 columns"));
}

TEST(DataNorm, TheGradientsOfTheStatisticsAreWhatTheBatchAdds) {
  ScopeRunner runner;
  runner.set("x", doubles({2, 1}, {1, 3}));
  runner.set("dy", doubles({2, 1}, {1, 2}));
  runner.set("scales", doubles({1}, {0.5}));
  runner.set("means", doubles({1}, {1}));
  runner.set("size", doubles({1}, {4}));
  runner.set("sum", doubles({1}, {4}));
  runner.set("square", doubles({1}, {16}));
  runner.run("data_norm_grad",
             {{"X", "x"},
              {"Y@GRAD", "dy"},
              {"Scales", "scales"},
              {"Means", "means"},
              {"BatchSize", "size"},
              {"BatchSum", "sum"},
              {"BatchSquareSum", "square"}},
             {{"X@GRAD", "dx"},
              {"BatchSize", "size"},
              {"BatchSum", "sum"},
              {"BatchSquareSum", "square"},
              {"BatchSize@GRAD", "dsize"},
              {"BatchSum@GRAD", "dsum"},
              {"BatchSquareSum@GRAD", "dsquare"}},
             {{"summary_decay_rate", 0.5f}, {"epsilon", 0.25f}});
  EXPECT_THAT(numbers(runner.tensor("dx")), ElementsAre(0.5, 1));
  EXPECT_THAT(numbers(runner.tensor("dsize")), ElementsAre(2));
  EXPECT_THAT(numbers(runner.tensor("dsum")), ElementsAre(4));
  EXPECT_THAT(numbers(runner.tensor("dsquare")), ElementsAre(4.5));  // 0 + 4 + 2 / 4
  // The optimizer alone moves them, whatever summary_decay_rate says, as in the original on CPUs.
  EXPECT_THAT(numbers(runner.tensor("size")), ElementsAre(4));
  EXPECT_THAT(numbers(runner.tensor("sum")), ElementsAre(4));
  EXPECT_THAT(numbers(runner.tensor("square")), ElementsAre(16));
}

TEST(Im2Sequence, EveryWindowIsARow) {
  const Tensor x = floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor out = run_op("im2sequence", {{"X", x}}, {{"kernels", std::vector<int32_t>{2, 2}}});
  EXPECT_EQ(out.shape(), Shape({2, 4}));
  EXPECT_EQ(out.lod(), (Lod{{0, 2}}));
  EXPECT_THAT(numbers(out), ElementsAre(1, 2, 4, 5, 2, 3, 5, 6));
  EXPECT_THAT(error_of([&] {
                run_op("im2sequence", {{"X", x}}, {{"kernels", std::vector<int32_t>{3, 1}}});
              }),
              HasSubstr("has no room for a window of 3 x 1"));
}

TEST(Im2Sequence, RealSizesMakeSequencesOfUnequalLength) {
  const Tensor out = run_op(
      "im2sequence",
      {{"X", floats({2, 1, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}, {"Y", floats({2, 2}, {2, 3, 2, 8})}},
      {{"kernels", std::vector<int32_t>{1, 1}}, {"out_stride", std::vector<int32_t>{2, 2}}});
  EXPECT_EQ(out.lod(), (Lod{{0, 2, 6}}));
  EXPECT_THAT(numbers(out), ElementsAre(1, 2, 5, 6, 7, 8));
}

TEST(Interp, NearestAndBilinearInEveryAlignment) {
  const Tensor x = floats({1, 1, 1, 3}, {0, 1, 2});
  const auto wide = [&](const std::string& op, int width, bool corners, int mode) {
    return numbers(
        run_op(op, {{"X", x}},
               {{"out_h", 1}, {"out_w", width}, {"align_corners", corners}, {"align_mode", mode}}));
  };
  EXPECT_THAT(wide("nearest_interp", 5, true, 1), ElementsAre(0, 1, 1, 2, 2));
  EXPECT_THAT(wide("nearest_interp", 6, false, 1), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(wide("bilinear_interp", 5, true, 1), ElementsAre(0, 0.5, 1, 1.5, 2));
  EXPECT_THAT(wide("bilinear_interp", 6, false, 1), ElementsAre(0, 0.5, 1, 1.5, 2, 2));
  EXPECT_THAT(wide("bilinear_interp", 6, false, 0), ElementsAre(0, 0.25, 0.75, 1.25, 1.75, 2));
}

TEST(Interp, ATensorOfSizesWins) {
  const std::vector<int32_t> size = {2, 1};
  const Tensor out = run_op("nearest_interp",
                            {{"X", floats({1, 1, 1, 2}, {3, 4})},
                             {"OutSize", make_tensor<int32_t>({2}, std::span(size))}},
                            {{"scale", 5.0f}});
  EXPECT_EQ(out.shape(), Shape({1, 1, 2, 1}));
  EXPECT_THAT(error_of([] {
                run_op("nearest_interp", {{"X", floats({1, 1, 1, 2}, {3, 4})}});
              }),
              HasSubstr("the result would be 0 x 0"));
}

}  // namespace
}  // namespace trireme::testing
