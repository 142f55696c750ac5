// Convolutions against a direct loop over every output, and the errors for sizes that do not fit.
#include <gmock/gmock.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int>;

struct Conv {
  int stride_h = 1, stride_w = 1;
  int top = 0, bottom = 0, left = 0, right = 0;
  int dilation_h = 1, dilation_w = 1;
  int groups = 1;

  Attrs attrs() const {
    return {{"strides", Ints{stride_h, stride_w}},
            {"paddings", Ints{top, bottom, left, right}},
            {"dilations", Ints{dilation_h, dilation_w}},
            {"groups", groups}};
  }
};

// The definition: every output is a sum over its window.
Tensor direct(const Tensor& x, const Tensor& filter, const Conv& c) {
  const Shape &in = x.shape(), &f = filter.shape();
  const int64_t height =
      (in.at(2) + c.top + c.bottom - c.dilation_h * (f.at(2) - 1) - 1) / c.stride_h + 1;
  const int64_t width =
      (in.at(3) + c.left + c.right - c.dilation_w * (f.at(3) - 1) - 1) / c.stride_w + 1;
  Tensor out = filled(DType::float64, {in[0], f[0], height, width}, 0);
  const double *from = x.data<double>(), *weight = filter.data<double>();
  double* to = out.data<double>();
  const int64_t maps = f.at(0), per_group = maps / c.groups;
  for (int64_t n = 0; n < in.at(0); ++n)
    for (int64_t m = 0; m < maps; ++m)
      for (int64_t oh = 0; oh < height; ++oh)
        for (int64_t ow = 0; ow < width; ++ow, ++to)
          for (int64_t ch = 0; ch < f.at(1); ++ch)
            for (int64_t kh = 0; kh < f.at(2); ++kh)
              for (int64_t kw = 0; kw < f.at(3); ++kw) {
                const int64_t h = oh * c.stride_h - c.top + kh * c.dilation_h;
                const int64_t w = ow * c.stride_w - c.left + kw * c.dilation_w;
                if (h < 0 || w < 0 || h >= in.at(2) || w >= in.at(3)) continue;
                const int64_t channel = m / per_group * f.at(1) + ch;
                *to += from[((n * in.at(1) + channel) * in.at(2) + h) * in.at(3) + w] *
                       weight[((m * f.at(1) + ch) * f.at(2) + kh) * f.at(3) + kw];
              }
  return out;
}

Tensor to_channel_last(const Tensor& x) {
  const Shape& s = x.shape();
  Tensor out(DType::float64, {s[0], s[2], s[3], s[1]});
  for (int64_t n = 0; n < s.at(0); ++n)
    for (int64_t c = 0; c < s.at(1); ++c)
      for (int64_t p = 0; p < s.at(2) * s.at(3); ++p) {
        const int64_t pixels = s.at(2) * s.at(3);
        out.data<double>()[(n * pixels + p) * s.at(1) + c] =
            x.data<double>()[(n * s.at(1) + c) * pixels + p];
      }
  return out;
}

TEST(Conv2d, EqualsTheDirectLoop) {
  Draw draw(7);
  const Conv cases[] = {
      {},
      {.stride_h = 2, .stride_w = 3, .top = 1, .bottom = 2, .left = 0, .right = 1},
      {.top = 2, .bottom = 2, .left = 2, .right = 2, .dilation_h = 2, .dilation_w = 2},
      {.stride_w = 2, .top = 1, .groups = 2},
  };
  for (const Conv& c : cases) {
    const Tensor x = draw.uniform({2, 4, 7, 6}), filter = draw.uniform({6, 4 / c.groups, 3, 2});
    const Tensor expected = direct(x, filter, c);
    const Tensor out = run_op("conv2d", {{"Input", x}, {"Filter", filter}}, c.attrs());
    EXPECT_LT(max_abs_diff(out, expected), 1e-12);
    Attrs last = c.attrs();
    last["data_format"] = std::string("NHWC");
    const Tensor out_last =
        run_op("conv2d", {{"Input", to_channel_last(x)}, {"Filter", filter}}, last);
    EXPECT_LT(max_abs_diff(out_last, to_channel_last(expected)), 1e-12);
  }
}

TEST(Conv2d, SamePaddingKeepsTheSize) {
  Draw draw(7);
  const Tensor x = draw.uniform({1, 1, 5, 6}), filter = draw.uniform({1, 1, 3, 2});
  const Tensor out = run_op("conv2d", {{"Input", x}, {"Filter", filter}},
                            {{"padding_algorithm", std::string("SAME")}});
  const Tensor expected = direct(x, filter, {.top = 1, .bottom = 1, .left = 0, .right = 1});
  EXPECT_LT(max_abs_diff(out, expected), 1e-12);
}

TEST(Conv2d, AddsItsBias) {
  const Tensor out = run_op("conv2d", {{"Input", doubles({1, 1, 1, 2}, {1, 2})},
                                       {"Filter", doubles({2, 1, 1, 1}, {1, 10})},
                                       {"Bias", doubles({2}, {0.5, -1})}});
  EXPECT_THAT(numbers(out), ElementsAre(1.5, 2.5, 9, 19));
}

TEST(Conv2d, SaysWhichChannelsDoNotFit) {
  const std::string what = error_of([] {
    run_op("conv2d", {{"Input", filled(DType::float64, {1, 3, 4, 4}, 1)},
                      {"Filter", filled(DType::float64, {2, 4, 3, 3}, 1)}});
  });
  EXPECT_THAT(what,
              HasSubstr("Input has 3 channels but Filter [2, 4, 3, 3] with 1 group(s) reads 4"));
  EXPECT_THAT(what, HasSubstr("give Filter the shape [2, 3, ...]"));
}

TEST(Conv2d, SaysThatTheWindowIsLargerThanTheImage) {
  EXPECT_THAT(error_of([] {
                run_op("conv2d", {{"Input", filled(DType::float64, {1, 1, 2, 4}, 1)},
                                  {"Filter", filled(DType::float64, {1, 1, 3, 3}, 1)}});
              }),
              HasSubstr("the window covers 3 in height but the image has 2"));
}

TEST(Conv2d, RefusesThreePaddings) {
  EXPECT_THAT(error_of([] {
                run_op("conv2d",
                       {{"Input", filled(DType::float64, {1, 1, 4, 4}, 1)},
                        {"Filter", filled(DType::float64, {1, 1, 3, 3}, 1)}},
                       {{"paddings", Ints{1, 1, 1}}});
              }),
              HasSubstr("paddings has 3 numbers [1, 1, 1]"));
}

TEST(DepthwiseConv2d, EachChannelHasItsOwnFilter) {
  const Tensor out = run_op(
      "depthwise_conv2d",
      {{"Input", doubles({1, 2, 1, 2}, {1, 2, 3, 4})}, {"Filter", doubles({2, 1, 1, 1}, {1, 10})}},
      {{"groups", 2}});
  EXPECT_THAT(numbers(out), ElementsAre(1, 2, 30, 40));
}

TEST(Conv2dTranspose, SpreadsEachPixelOverItsWindow) {
  const Tensor out = run_op(
      "conv2d_transpose",
      {{"Input", doubles({1, 1, 1, 2}, {1, 2})}, {"Filter", doubles({1, 1, 1, 3}, {1, 10, 100})}},
      {{"strides", Ints{1, 2}}});
  EXPECT_EQ(out.shape(), (Shape{1, 1, 1, 5}));
  EXPECT_THAT(numbers(out), ElementsAre(1, 10, 102, 20, 200));
}

TEST(Conv2dTranspose, OutputSizeChoosesAmongThePossibleOnes) {
  const Tensors call{{"Input", {doubles({1, 1, 1, 2}, {1, 2})}},
                     {"Filter", {doubles({1, 1, 1, 1}, {1})}}};
  const Attrs wide{{"strides", Ints{1, 2}}, {"output_size", Ints{1, 4}}};
  EXPECT_THAT(
      numbers(run_op({.type = "conv2d_transpose", .inputs = call, .attrs = wide}).at("Output")[0]),
      ElementsAre(1, 0, 2, 0));
  EXPECT_THAT(error_of([&] {
                run_op({.type = "conv2d_transpose",
                        .inputs = call,
                        .attrs = {{"strides", Ints{1, 2}}, {"output_size", Ints{1, 5}}}});
              }),
              HasSubstr("output_size of dimension 1 is 5 but must be from 3 to 4"));
}

TEST(DepthwiseConv2dTranspose, EachChannelHasItsOwnFilter) {
  const Tensor out = run_op(
      "depthwise_conv2d_transpose",
      {{"Input", doubles({1, 2, 1, 1}, {2, 3})}, {"Filter", doubles({2, 1, 1, 2}, {1, 10, 5, 7})}},
      {{"groups", 2}});
  EXPECT_EQ(out.shape(), (Shape{1, 2, 1, 2}));
  EXPECT_THAT(numbers(out), ElementsAre(2, 20, 15, 21));
}

TEST(Conv3dTranspose, SpreadsEachVoxelOverItsWindow) {
  const Tensor out =
      run_op("conv3d_transpose", {{"Input", doubles({1, 1, 1, 1, 2}, {1, 2})},
                                  {"Filter", doubles({1, 1, 1, 2, 2}, {1, 10, 100, 1000})}});
  EXPECT_EQ(out.shape(), (Shape{1, 1, 1, 2, 3}));
  EXPECT_THAT(numbers(out), ElementsAre(1, 12, 20, 100, 1200, 2000));
}

TEST(Conv3d, SumsOverAVolume) {
  const Tensor out = run_op("conv3d", {{"Input", filled(DType::float64, {1, 2, 3, 3, 3}, 1)},
                                       {"Filter", filled(DType::float64, {1, 2, 2, 2, 2}, 1)}});
  EXPECT_EQ(out.shape(), (Shape{1, 1, 2, 2, 2}));
  EXPECT_THAT(numbers(out), ::testing::Each(16.0));
}

}  // namespace
}  // namespace trireme::testing
