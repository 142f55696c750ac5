// Normalisation: known values, running statistics, layouts, and parameters that do not fit.
#include <gmock/gmock.h>

#include <cmath>

#include "ir/sample.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Two channels: 1 and 3, then 10 and 30; deviations of 1 and 10 from their means.
const Tensor kPairs = doubles({2, 2}, {1, 10, 3, 30});

Tensors batch_norm(Attrs attrs, const Tensor& x = kPairs) {
  return run_op({.type = "batch_norm",
                 .inputs = {{"X", {x}},
                            {"Scale", {doubles({2}, {1, 2})}},
                            {"Bias", {doubles({2}, {0, 5})}},
                            {"Mean", {doubles({2}, {1, 1})}},
                            {"Variance", {doubles({2}, {4, 4})}}},
                 .attrs = std::move(attrs)});
}

void expect_near(const Tensor& found, const std::vector<double>& expected, double tolerance) {
  EXPECT_THAT(numbers(found), Pointwise(DoubleNear(tolerance), expected));
}

TEST(BatchNorm, NormalisesEachChannelOverTheBatch) {
  const Tensors out = batch_norm({{"epsilon", 0.0f}});
  expect_near(out.at("Y")[0], {-1, 3, 1, 7}, 1e-12);
  expect_near(out.at("SavedMean")[0], {2, 20}, 1e-12);
  expect_near(out.at("SavedVariance")[0], {1, 0.1}, 1e-12);  // one over the deviation
}

// One device alone is the whole batch.
TEST(SyncBatchNorm, NormalisesEachChannelOverTheBatch) {
  OpCall call{.type = "sync_batch_norm",
              .inputs = {{"X", {kPairs}},
                         {"Scale", {doubles({2}, {1, 2})}},
                         {"Bias", {doubles({2}, {0, 5})}},
                         {"Mean", {doubles({2}, {1, 1})}},
                         {"Variance", {doubles({2}, {4, 4})}}},
              .attrs = {{"epsilon", 0.0f}, {"momentum", 0.75f}}};
  const Tensors out = run_op(call);
  expect_near(out.at("Y")[0], {-1, 3, 1, 7}, 1e-12);
  expect_near(out.at("MeanOut")[0], {1.25, 5.75}, 1e-12);
}

TEST(BatchNorm, MovesTheKeptStatistics) {
  const Tensors out = batch_norm({{"momentum", 0.75f}});
  expect_near(out.at("MeanOut")[0], {1.25, 5.75}, 1e-12);
  expect_near(out.at("VarianceOut")[0], {3.25, 28}, 1e-12);
}

TEST(BatchNorm, TestingUsesTheKeptStatistics) {
  for (const char* attr : {"is_test", "use_global_stats"}) {
    const Tensors out = batch_norm({{attr, true}, {"epsilon", 0.0f}});
    expect_near(out.at("Y")[0], {0, 14, 1, 34}, 1e-12);
    expect_near(out.at("MeanOut")[0], {1, 1}, 0);
    expect_near(out.at("VarianceOut")[0], {4, 4}, 0);
  }
}

TEST(BatchNorm, ChannelsMayComeLast) {
  const Tensor x = doubles({1, 2, 1, 2}, {1, 10, 3, 30});
  const Tensors out = batch_norm({{"epsilon", 0.0f}, {"data_layout", std::string("NHWC")}}, x);
  expect_near(out.at("Y")[0], {-1, 3, 1, 7}, 1e-12);
}

// Where the statistics are given, an element's gradient does not reach the others through them. In
// every layout and type, each of which has loops of its own.
TEST(BatchNorm, KeptStatisticsHaveNoGradient) {
  constexpr int64_t kChannels = 16, kPixels = 6;
  Draw draw(23);
  const Tensor x = draw.uniform({1, kPixels, 1, kChannels});
  const Tensor grad = draw.uniform({1, kPixels, 1, kChannels});
  const Tensor scale = draw.uniform({kChannels}, 0.5, 1.5);
  const Tensor mean = draw.uniform({kChannels}), inverse = draw.uniform({kChannels}, 0.5, 1.5);
  std::vector<double> of_x(kPixels * kChannels), of_scale(kChannels), of_bias(kChannels);
  for (int64_t i = 0; i < kPixels * kChannels; ++i) {
    const int64_t c = i % kChannels;
    const double g = numbers(grad)[i];
    of_x[i] = g * numbers(scale)[c] * numbers(inverse)[c];
    of_scale[c] += g * (numbers(x)[i] - numbers(mean)[c]) * numbers(inverse)[c];
    of_bias[c] += g;
  }
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const char* attr : {"use_global_stats", "is_test"}) {
      for (const char* layout : {"NHWC", "NCHW"}) {
        SCOPED_TRACE(std::string(attr) + " " + layout);
        const bool last = layout == std::string("NHWC");
        const auto placed = [&](const Tensor& image) {
          const Tensor moved =
              last ? image
                   : run_op("transpose", {{"X", image}}, {{"axis", std::vector<int>{0, 3, 1, 2}}});
          return cast(moved, dtype);
        };
        const Tensors out = run_op({.type = "batch_norm_grad",
                                    .inputs = {{"X", {placed(x)}},
                                               {"Y@GRAD", {placed(grad)}},
                                               {"Scale", {cast(scale, dtype)}},
                                               {"Bias", {cast(scale, dtype)}},
                                               {"SavedMean", {cast(mean, dtype)}},
                                               {"SavedVariance", {cast(inverse, dtype)}}},
                                    .attrs = {{attr, true}, {"data_layout", std::string(layout)}},
                                    .outputs = {"X@GRAD", "Scale@GRAD", "Bias@GRAD"}});
        expect_near(out.at("X@GRAD")[0], numbers(placed(doubles({1, kPixels, 1, kChannels}, of_x))),
                    1e-6);
        expect_near(out.at("Scale@GRAD")[0], of_scale, 1e-5);
        expect_near(out.at("Bias@GRAD")[0], of_bias, 1e-5);
      }
    }
  }
}

TEST(BatchNorm, ALargeMeanDoesNotDrownTheVariance) {
  Tensor x = floats({4, 1}, {10000, 10001, 10002, 10003});
  const Tensors out = run_op({.type = "batch_norm",
                              .inputs = {{"X", {x}},
                                         {"Scale", {floats({1}, {1})}},
                                         {"Bias", {floats({1}, {0})}},
                                         {"Mean", {floats({1}, {0})}},
                                         {"Variance", {floats({1}, {0})}}},
                              .attrs = {{"momentum", 0.0f}}});
  EXPECT_FLOAT_EQ(static_cast<float>(numbers(out.at("VarianceOut")[0])[0]), 1.25f);
}

TEST(BatchNorm, SaysWhichParameterDoesNotFit) {
  const std::string what = error_of([] {
    batch_norm({}, filled(DType::float64, {2, 3, 1, 1}, 1));
  });
  EXPECT_THAT(what, HasSubstr("Scale has 2 numbers but X has 3 channels"));
  EXPECT_THAT(what, HasSubstr("give Scale the shape [3]"));
}

TEST(LayerNorm, NormalisesEachRow) {
  const Tensors out = run_op({.type = "layer_norm",
                              .inputs = {{"X", {doubles({2, 2}, {1, 3, 10, 30})}},
                                         {"Scale", {doubles({2}, {1, 2})}},
                                         {"Bias", {doubles({2}, {0, 5})}}},
                              .attrs = {{"epsilon", 0.0f}}});
  expect_near(out.at("Y")[0], {-1, 7, -1, 7}, 1e-12);
  expect_near(out.at("Mean")[0], {2, 20}, 1e-12);
  expect_near(out.at("Variance")[0], {1, 100}, 1e-12);
}

TEST(LayerNorm, RefusesAnAxisThatIsNotThere) {
  EXPECT_THAT(error_of([] {
                run_op("layer_norm", {{"X", kPairs}}, {{"begin_norm_axis", 2}});
              }),
              HasSubstr("begin_norm_axis is 2 but X has 2 dimensions"));
}

TEST(GroupNorm, NormalisesGroupsOfChannels) {
  const Tensor x = doubles({1, 4, 1}, {1, 3, 10, 30});
  const Tensors out = run_op(
      {.type = "group_norm", .inputs = {{"X", {x}}}, .attrs = {{"groups", 2}, {"epsilon", 0.0f}}});
  expect_near(out.at("Y")[0], {-1, 1, -1, 1}, 1e-12);
  EXPECT_EQ(out.at("Mean")[0].shape(), (Shape{1, 2}));
  expect_near(out.at("Variance")[0], {1, 100}, 1e-12);
  EXPECT_THAT(error_of([&] {
                run_op("group_norm", {{"X", x}}, {{"groups", 3}});
              }),
              HasSubstr("X has 4 channels, which 3 groups do not divide"));
}

TEST(InstanceNorm, NormalisesEachChannelOfEachSample) {
  const Tensor x = doubles({1, 2, 2}, {1, 3, 10, 30});
  const Tensors out = run_op(
      {.type = "instance_norm",
       .inputs = {{"X", {x}}, {"Scale", {doubles({2}, {1, 2})}}, {"Bias", {doubles({2}, {0, 5})}}},
       .attrs = {{"epsilon", 0.0f}}});
  expect_near(out.at("Y")[0], {-1, 1, 3, 7}, 1e-12);
  expect_near(out.at("SavedVariance")[0], {1, 0.1}, 1e-12);
  EXPECT_THAT(error_of([&] {
                run_op("instance_norm", {{"X", x}, {"Scale", doubles({3}, {1, 1, 1})}});
              }),
              HasSubstr("Scale has 3 numbers but there are 2 channels"));
}

TEST(SpectralNorm, DividesByTheLargestSingularValue) {
  const Tensor diagonal = doubles({2, 2}, {3, 0, 0, 1});
  for (const int dim : {0, 1}) {
    const Tensor out = run_op(
        "spectral_norm",
        {{"Weight", diagonal}, {"U", doubles({2}, {0.7, 0.7})}, {"V", doubles({2}, {0.1, 0.2})}},
        {{"dim", dim}, {"power_iters", 50}});
    expect_near(out, {1, 0, 0, 1.0 / 3}, 1e-9);
  }
}

}  // namespace
}  // namespace trireme::testing
