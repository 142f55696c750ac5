// Known values and wrong uses of rounding for quantised training, and of detection_map.
#include <cmath>

#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

Tensor one(float value) { return floats({1}, {value}); }

TEST(FakeQuantize, WholeNumbersOfTheLargest) {
  const Tensors out = run_op({.type = "fake_quantize_abs_max",
                              .inputs = {{"X", {floats({2, 2}, {1, -2, .5f, .26f})}}},
                              .attrs = {{"bit_length", 5}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(8, -15, 4, 2));  // 7.5 and 3.75, 1.95
  EXPECT_THAT(numbers(out.at("OutScale")[0]), ElementsAre(2));
}

TEST(FakeQuantize, ZerosStayZeros) {
  const Tensors out =
      run_op({.type = "fake_quantize_abs_max", .inputs = {{"X", {floats({2}, {0, 0})}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(0, 0));
}

TEST(FakeQuantize, EachChannelHasItsScale) {
  const Tensors out = run_op({.type = "fake_channel_wise_quantize_abs_max",
                              .inputs = {{"X", {floats({2, 2}, {1, -2, 4, 1})}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(64, -127, 127, 32));
  EXPECT_THAT(numbers(out.at("OutScale")[0]), ElementsAre(2, 4));
}

TEST(FakeQuantize, TheScaleIsTheLargestOfAWindow) {
  const auto step = [](int64_t number, float largest, float scale,
                       const std::vector<float>& scales) {
    const Tensors out = run_op({.type = "fake_quantize_range_abs_max",
                                .inputs = {{"X", {floats({2}, {largest, -largest / 2})}},
                                           {"InScale", {one(scale)}},
                                           {"Iter", {longs({1}, {number})}},
                                           {"InScales", {floats({3}, scales)}}},
                                .attrs = {{"window_size", 3}},
                                .out_counts = {{"OutScales", 1}}});
    std::vector<double> found = numbers(out.at("OutScales")[0]);
    found.push_back(numbers(out.at("OutScale")[0])[0]);
    return found;
  };
  EXPECT_THAT(step(4, 3, 5, {2, 1, 5}), ElementsAre(2, 3, 5, 5));
  EXPECT_THAT(step(5, 2, 5, {2, 3, 5}), ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(step(6, 9, 3, {2, 3, 2}), ElementsAre(9, 3, 2, 9));
}

TEST(FakeQuantize, TheScaleIsAMovingAverage) {
  for (const bool back : {false, true}) {
    const Tensors out = run_op({.type = back ? "fake_quantize_dequantize_moving_average_abs_max"
                                             : "fake_quantize_moving_average_abs_max",
                                .inputs = {{"X", {floats({3}, {2, -1, .5f})}},
                                           {"InScale", {one(1)}},
                                           {"InAccum", {one(1)}},
                                           {"InState", {one(1)}}},
                                .attrs = {{"moving_rate", .5f}},
                                .out_counts = {{"OutAccum", 1}, {"OutState", 1}}});
    EXPECT_THAT(numbers(out.at("OutState")[0]), ElementsAre(1.5));
    EXPECT_THAT(numbers(out.at("OutAccum")[0]), ElementsAre(2.5));
    const double scale = 2.5 / 1.5, each = back ? scale / 127 : 1;
    const std::vector<double> wanted = {127 * each, std::round(-127 / scale) * each,
                                        std::round(.5 * 127 / scale) * each};
    EXPECT_THAT(numbers(out.at("Out")[0]), Pointwise(FloatNear(1e-5f), wanted));
  }
}

TEST(FakeQuantize, InATestTheScaleStays) {
  const Tensors out = run_op({.type = "fake_quantize_moving_average_abs_max",
                              .inputs = {{"X", {floats({3}, {2, -1, .5f})}}, {"InScale", {one(1)}}},
                              .attrs = {{"is_test", true}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(127, -127, 64));
  EXPECT_THAT(numbers(out.at("OutScale")[0]), ElementsAre(1));
}

TEST(FakeQuantize, AScaleIsWatched) {
  const Tensors out = run_op(
      {.type = "moving_average_abs_max_scale",
       .inputs = {{"X", {floats({2}, {2, -6})}}, {"InAccum", {one(1)}}, {"InState", {one(1)}}},
       .attrs = {{"moving_rate", .5f}},
       .out_counts = {{"Out", 1}}});
  EXPECT_THAT(numbers(out.at("OutScale")[0]), Pointwise(FloatNear(1e-5f), {6.5 / 1.5}));
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(2, -6));
}

TEST(FakeDequantize, NumbersThatWholeOnesStandFor) {
  EXPECT_THAT(
      numbers(run_op("fake_dequantize_max_abs", {{"X", floats({2}, {127, -64})}, {"Scale", one(2)}},
                     {{"max_range", 128.0f}})),
      ElementsAre(1.984375, -1));
  EXPECT_THAT(
      numbers(run_op("fake_channel_wise_dequantize_max_abs",
                     {{"X", floats({2, 2}, {7, -7, 7, 3.5f})}, {"Scales", floats({2}, {2, 4})}},
                     {{"quant_bits", std::vector<int32_t>{4}}})),
      ElementsAre(2, -2, 4, 2));
  const Tensors out = run_op(
      {.type = "fake_channel_wise_dequantize_max_abs",
       .inputs = {{"X", {floats({1, 2}, {49, 49})}}, {"Scales", {floats({2}, {2, 4}), one(3)}}},
       .attrs = {{"quant_bits", std::vector<int32_t>{4, 4}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), Pointwise(FloatNear(1e-5f), {6.0, 12.0}));
}

TEST(WrongUse, Rounding) {
  const Tensor two = floats({2}, {1, 2});
  expect_refused({
      spoiled("fake_quantize_abs_max", {}, {{"bit_length", 17}}, "bit_length is 17"),
      spoiled("fake_channel_wise_quantize_abs_max", {}, {{"bit_length", 0}}, "bit_length is 0"),
      spoiled("fake_quantize_range_abs_max", {{"InScale", {two}}}, {}, "InScale"),
      spoiled("fake_quantize_moving_average_abs_max", {{"InScale", {two}}}, {}, "InScale"),
      spoiled("fake_quantize_dequantize_moving_average_abs_max", {{"InState", {two}}}, {},
              "InState"),
      spoiled("moving_average_abs_max_scale", {{"X", {longs({1}, {1})}}}, {}, "int64"),
      spoiled("fake_dequantize_max_abs", {}, {{"max_range", 0.0f}}, "max_range is 0"),
      spoiled("fake_channel_wise_dequantize_max_abs", {{"Scales", {floats({3}, {1, 2, 3})}}}, {},
              "Scales [3]"),
  });
}

Tensor by_image(Tensor rows, std::vector<int64_t> ends) {
  rows.set_lod({std::move(ends)});
  return rows;
}

// Image 0: a hit, the same box again, a box that is not marked. Image 1: a difficult box is found.
const Tensor kFound =
    by_image(floats({4, 6}, {1, .9f, .1f, .1f, .5f, .5f, 1, .8f, .1f, .1f, .5f, .45f,
                             1, .7f, .6f, .6f, .7f, .7f, 1, .6f, .2f, .2f, .4f, .4f}),
             {0, 3, 4});
const Tensor kMarked = by_image(
    floats({3, 6}, {1, 0, .1f, .1f, .5f, .5f, 2, 0, .7f, .7f, .8f, .8f, 1, 1, .2f, .2f, .4f, .4f}),
    {0, 2, 3});

TEST(DetectionMap, HitsAndMissesByClass) {
  const auto run = [](bool difficult) {
    return run_op({.type = "detection_map",
                   .inputs = {{"DetectRes", {kFound}}, {"Label", {kMarked}}},
                   .attrs = {{"class_num", 3}, {"evaluate_difficult", difficult}}});
  };
  Tensors out = run(true);
  EXPECT_THAT(numbers(out.at("AccumPosCount")[0]), ElementsAre(0, 2, 1));
  EXPECT_THAT(numbers(out.at("AccumTruePos")[0]), ElementsAre(.9f, 1, .8f, 0, .7f, 0, .6f, 1));
  EXPECT_THAT(numbers(out.at("AccumFalsePos")[0]), ElementsAre(.9f, 0, .8f, 1, .7f, 1, .6f, 0));
  EXPECT_EQ(out.at("AccumTruePos")[0].lod(), (Lod{{0, 0, 4, 4}}));
  // Class 1: precision 1 up to recall 1/2, then 2/4; class 2 was not found.
  EXPECT_THAT(numbers(out.at("MAP")[0]), Pointwise(FloatNear(1e-6f), {(0.5 + 0.25) / 2}));
  out = run(false);
  EXPECT_THAT(numbers(out.at("AccumPosCount")[0]), ElementsAre(0, 1, 1));
  EXPECT_THAT(numbers(out.at("AccumTruePos")[0]), ElementsAre(.9f, 1, .8f, 0, .7f, 0));
  EXPECT_THAT(numbers(out.at("MAP")[0]), ElementsAre(.5));
}

TEST(DetectionMap, CountsGoOnWhereThereAreSome) {
  const Tensor marks = by_image(floats({1, 2}, {.95f, 1}), {0, 0, 0, 1});
  const Tensor no_marks = by_image(floats({1, 2}, {.95f, 0}), {0, 0, 0, 1});
  for (const int64_t has_state : {0, 1}) {
    const Tensors out =
        run_op({.type = "detection_map",
                .inputs = {{"DetectRes", {kFound}},
                           {"Label", {kMarked}},
                           {"HasState", {cast(longs({1}, {has_state}), DType::int32)}},
                           {"PosCount", {cast(longs({3, 1}, {0, 0, 1}), DType::int32)}},
                           {"TruePos", {marks}},
                           {"FalsePos", {no_marks}}},
                .attrs = {{"class_num", 3}}});
    EXPECT_THAT(numbers(out.at("AccumPosCount")[0]), ElementsAre(0, 2, 1 + has_state));
    // Class 2 then has one hit of two.
    EXPECT_THAT(numbers(out.at("MAP")[0]),
                Pointwise(FloatNear(1e-6f), {(0.75 + 0.5 * has_state) / 2}));
  }
}

TEST(WrongUse, DetectionMaps) {
  expect_refused({
      spoiled("detection_map", {}, {{"ap_type", std::string("12point")}}, "ap_type is \"12point\""),
      spoiled("detection_map", {{"DetectRes", {floats({2}, {1, 2})}}}, {},
              "DetectRes has shape [2]"),
      spoiled("detection_map", {}, {{"class_num", 1}}, "class_num is 1"),
      spoiled("detection_map", {{"Label", {floats({1, 6}, {1, 0, 0, 0, 1, 1})}}}, {},
              "Label has no LoD"),
  });
}

}  // namespace
}  // namespace trireme::testing
