// Pooling: known windows, paddings, adaptive and global ones.
#include <gmock/gmock.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int>;

const Tensor kNine = doubles({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});

Tensor pool(const std::string& type, Ints sizes, Attrs attrs = {}, const Tensor& x = kNine) {
  attrs["pooling_type"] = type;
  attrs["ksize"] = std::move(sizes);
  return run_op("pool2d", {{"X", x}}, std::move(attrs));
}

TEST(Pool2d, TakesTheLargestOrTheAverage) {
  EXPECT_THAT(numbers(pool("max", {2, 2})), ElementsAre(5, 6, 8, 9));
  EXPECT_THAT(numbers(pool("avg", {2, 2})), ElementsAre(3, 4, 6, 7));
}

TEST(Pool2d, PaddingCountsOnlyWhenItIsNotExclusive) {
  const Attrs padded{{"paddings", Ints{1, 1}}, {"strides", Ints{2, 2}}};
  EXPECT_THAT(numbers(pool("avg", {2, 2}, padded)), ElementsAre(1, 2.5, 5.5, 7));
  Attrs inclusive = padded;
  inclusive["exclusive"] = false;
  EXPECT_THAT(numbers(pool("avg", {2, 2}, inclusive)), ElementsAre(0.25, 1.25, 2.75, 7));
}

TEST(Pool2d, CeilModeCountsTheLastPartialWindow) {
  const Attrs steps{{"strides", Ints{2, 2}}};
  EXPECT_THAT(numbers(pool("max", {2, 2}, steps)), ElementsAre(5));
  Attrs ceil = steps;
  ceil["ceil_mode"] = true;
  EXPECT_THAT(numbers(pool("max", {2, 2}, ceil)), ElementsAre(5, 6, 8, 9));
}

TEST(Pool2d, GlobalPoolingCoversTheImage) {
  const Tensor out = pool("avg", {1, 1}, {{"global_pooling", true}, {"paddings", Ints{1, 1}}});
  EXPECT_EQ(out.shape(), (Shape{1, 1, 1, 1}));
  EXPECT_THAT(numbers(out), ElementsAre(5));
}

TEST(Pool2d, AdaptiveWindowsOverlap) {
  EXPECT_THAT(numbers(pool("avg", {2, 2}, {{"adaptive", true}})), ElementsAre(3, 4, 6, 7));
}

TEST(Pool2d, ChannelsMayComeLast) {
  const Tensor x = doubles({1, 1, 2, 2}, {1, 10, 3, 20});
  EXPECT_THAT(numbers(pool("max", {1, 2}, {{"data_format", std::string("NHWC")}}, x)),
              ElementsAre(3, 20));
}

TEST(Pool2d, RefusesPaddingAsWideAsTheWindow) {
  EXPECT_THAT(error_of([] {
                pool("max", {2, 2}, {{"paddings", Ints{2, 2}}});
              }),
              HasSubstr("leave windows of 2 with nothing but padding"));
}

TEST(Pool2d, RefusesAnUnknownKind) {
  EXPECT_THAT(error_of([] { pool("mean", {2, 2}); }), HasSubstr("'max', 'avg'"));
}

TEST(Pool3d, AveragesAVolume) {
  const Tensor out = run_op("pool3d", {{"X", doubles({1, 1, 2, 1, 2}, {1, 2, 3, 6})}},
                            {{"pooling_type", std::string("avg")}, {"ksize", Ints{2, 1, 1}}});
  EXPECT_THAT(numbers(out), ElementsAre(2, 4));
}

TEST(MaxPool2dWithIndex, SaysWhereTheLargestStood) {
  const Tensors out = run_op({.type = "max_pool2d_with_index",
                              .inputs = {{"X", {kNine}}},
                              .attrs = {{"ksize", Ints{2, 2}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(5, 6, 8, 9));
  EXPECT_THAT(numbers(out.at("Mask")[0]), ElementsAre(4, 5, 7, 8));
  EXPECT_THAT(error_of([] {
                run_op("max_pool2d_with_index", {{"X", kNine}}, {{"ksize", Ints{2}}});
              }),
              HasSubstr("ksize has 1 numbers [2]"));
}

}  // namespace
}  // namespace trireme::testing
