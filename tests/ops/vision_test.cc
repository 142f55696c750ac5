// Known values and wrong uses of ops on images: borders, windows, channels.
#include <cmath>

#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using Sides = std::vector<int32_t>;

const Tensor kTwoByThree = floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Pad2d, ABorderIsConstantReflectedOrTheEdge) {
  const auto padded = [](const char* mode) {
    return numbers(run_op("pad2d", {{"X", kTwoByThree}},
                          {{"paddings", Sides{1, 0, 0, 2}}, {"mode", mode}, {"pad_value", 9.f}}));
  };
  EXPECT_THAT(padded("constant"), ElementsAre(9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 9));
  EXPECT_THAT(padded("reflect"), ElementsAre(4, 5, 6, 5, 4, 1, 2, 3, 2, 1, 4, 5, 6, 5, 4));
  EXPECT_THAT(padded("edge"), ElementsAre(1, 2, 3, 3, 3, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6));
}

TEST(Pad2d, TheBorderMayComeFromATensor) {
  const Tensor sides = cast(longs({4}, {0, 1, 0, 0}), DType::int32);
  EXPECT_THAT(numbers(run_op("pad2d", {{"X", kTwoByThree}, {"Paddings", sides}})),
              ElementsAre(1, 2, 3, 4, 5, 6, 0, 0, 0));
}

TEST(PadConstantLike, FillsTheShapeOfX) {
  EXPECT_THAT(
      numbers(run_op("pad_constant_like",
                     {{"X", floats({2, 3}, {0, 0, 0, 0, 0, 0})}, {"Y", floats({1, 2}, {1, 2})}},
                     {{"pad_value", 7.f}})),
      ElementsAre(1, 2, 7, 7, 7, 7));
}

TEST(Unfold, EveryWindowIsAColumn) {
  EXPECT_THAT(numbers(run_op("unfold", {{"X", kTwoByThree}}, {{"kernel_sizes", Sides{2, 2}}})),
              ElementsAre(1, 2, 2, 3, 4, 5, 5, 6));
}

TEST(TemporalShift, ChannelsComeFromTheFramesAround) {
  const Tensor x = floats({2, 4, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(numbers(run_op("temporal_shift", {{"X", x}}, {{"seg_num", 2}})),
              ElementsAre(0, 6, 3, 4, 1, 0, 7, 8));
}

TEST(AffineChannel, ScalesAndMovesEachChannel) {
  EXPECT_THAT(numbers(run_op("affine_channel", {{"X", floats({1, 2, 1, 2}, {1, 2, 3, 4})},
                                                {"Scale", floats({2}, {10, 100})},
                                                {"Bias", floats({2}, {1, 2})}})),
              ElementsAre(11, 21, 302, 402));
}

TEST(PixelShuffle, ChannelsBecomePixels) {
  const Tensor x = floats({1, 4, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(numbers(run_op("pixel_shuffle", {{"X", x}}, {{"upscale_factor", 2}})),
              ElementsAre(1, 3, 2, 4, 5, 7, 6, 8));
}

TEST(ShuffleChannel, TakesFromOneGroupAfterAnother) {
  EXPECT_THAT(numbers(run_op("shuffle_channel", {{"X", floats({1, 4, 1, 1}, {1, 2, 3, 4})}},
                             {{"group", 2}})),
              ElementsAre(1, 3, 2, 4));
}

TEST(Maxout, TakesTheLargestOfNeighbours) {
  EXPECT_THAT(
      numbers(run_op("maxout", {{"X", floats({1, 4, 1, 1}, {1, 2, 4, 3})}}, {{"groups", 2}})),
      ElementsAre(2, 4));
}

TEST(Lrn, DividesByTheSquaresAround) {
  const Tensor out = run_op("lrn", {{"X", doubles({1, 3, 1, 1}, {1, 2, 3})}},
                            {{"n", 3}, {"k", 1.f}, {"alpha", 1.f}, {"beta", 0.5f}});
  const Tensor wanted =
      doubles({1, 3, 1, 1}, {1 / std::sqrt(6.), 2 / std::sqrt(15.), 3 / std::sqrt(14.)});
  EXPECT_LT(max_abs_diff(out, wanted), 1e-12);
}

TEST(WrongUse, Images) {
  const Tensor line = floats({3}, {1, 2, 3});
  expect_refused({
      spoiled("pad2d", {}, {{"paddings", Sides{1, 1}}}, "paddings is [1, 1]"),
      spoiled("pad_constant_like", {{"X", {line}}}, {}, "X has shape [3]"),
      spoiled("unfold", {}, {{"kernel_sizes", Sides{9, 9}}}, "no room for a window"),
      spoiled("temporal_shift", {}, {{"seg_num", 3}}, "seg_num is 3 but X has 4 frames"),
      spoiled("affine_channel", {{"Scale", {line}}}, {}, "Scale has shape [3]"),
      spoiled("pixel_shuffle", {}, {{"upscale_factor", 3}}, "upscale_factor squared is 9"),
      spoiled("shuffle_channel", {}, {{"group", 4}}, "X has 6 channels but group is 4"),
      spoiled("maxout", {}, {{"groups", 1}}, "groups is 1"),
      spoiled("lrn", {}, {{"n", 4}}, "n is 4"),
  });
}

}  // namespace
}  // namespace trireme::testing
