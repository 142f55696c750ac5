// Convolutions for inference against plain loops, on random sizes: images in blocks, a filter
// packed once, bias, residual and relu behind the sums.
#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"
#include "cpu/onednn.h"
#include "cpu/vectorised.h"
#include "ir/sample.h"
#include "tests/support/seed.h"

namespace trireme {
namespace {

struct BlockedSizes {
  int64_t batch, channels, height, width, block;  // block 0: plain
  int64_t size() const { return batch * channels * height * width; }
  int64_t at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    if (block == 0) return ((n * channels + c) * height + y) * width + x;
    return (((n * (channels / block) + c / block) * height + y) * width + x) * block + c % block;
  }
};

std::vector<float> draw_floats(Draw& draw, int64_t count) {
  const Tensor drawn = draw.uniform({count});
  const double* from = drawn.data<double>();
  return {from, from + count};
}

struct DrawnConv {
  ConvSizes sizes;
  OnednnConv::Finish finish;
  std::vector<float> image, filter, bias, residual;

  BlockedSizes images() const {
    const auto& [h, w] = sizes.axes;
    return {sizes.batch, sizes.groups * sizes.image_channels, h.image, w.image, sizes.image_block};
  }
  BlockedSizes maps() const {
    const auto& [h, w] = sizes.axes;
    return {sizes.batch, sizes.groups * sizes.map_channels, h.map, w.map, sizes.map_block};
  }

  double wanted(int64_t n, int64_t c, int64_t y, int64_t x) const {
    const auto& [h, w] = sizes.axes;
    const int64_t inputs = sizes.image_channels, group = c / sizes.map_channels;
    double sum = finish.bias ? double{bias[static_cast<size_t>(c)]} : 0;
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t ty = 0; ty < h.size; ++ty) {
        for (int64_t tx = 0; tx < w.size; ++tx) {
          const int64_t iy = y * h.stride + ty * h.dilation - h.pad_begin;
          const int64_t ix = x * w.stride + tx * w.dilation - w.pad_begin;
          if (iy < 0 || ix < 0 || iy >= h.image || ix >= w.image) continue;
          const auto from = static_cast<size_t>(images().at(n, group * inputs + i, iy, ix));
          const auto tap = static_cast<size_t>(((c * inputs + i) * h.size + ty) * w.size + tx);
          sum += double{image[from]} * double{filter[tap]};
        }
      }
    }
    if (finish.residual) sum += double{residual[static_cast<size_t>(maps().at(n, c, y, x))]};
    return finish.relu ? std::max(sum, 0.0) : sum;
  }

  std::vector<float> run(OnednnConv& conv, bool in_place) const {
    std::vector<float> map(static_cast<size_t>(maps().size()), NAN);
    if (in_place) map = residual;
    std::vector<std::byte> memory(conv.scratch() + 64);
    auto* scratch =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    const OnednnConv::Tensors tensors{.image = const_cast<float*>(image.data()),
                                      .map = map.data(),
                                      .filter = const_cast<float*>(filter.data()),
                                      .bias = bias.data(),
                                      .residual = in_place ? map.data() : residual.data()};
    for (int i = 0; i < conv.filter_pieces(); ++i) conv.pack_filter(i, tensors, scratch);
    for (int i = 0; i < conv.slices(); ++i) conv.run_slice(i, tensors, scratch);
    return map;
  }
};

DrawnConv drawn_conv(Draw& draw, bool depthwise) {
  DrawnConv made;
  ConvSizes& s = made.sizes;
  s.batch = draw.size(1, 6);
  s.map_block = 16;
  if (depthwise) {
    s.groups = 16 * draw.size(1, 9);
    s.image_channels = s.map_channels = 1;
    s.image_block = 16;
  } else {
    const bool first = draw.size(0, 3) == 0;  // the layer that looks at colours
    s.image_channels = first ? 3 : 16 * draw.size(1, 9);
    s.map_channels = 16 * draw.size(1, 17);
    s.image_block = first ? 0 : 16;
  }
  const int64_t window = 2 * draw.size(0, 2) + 1, stride = draw.size(1, 2), pad = window / 2;
  for (ConvSizes::Axis& axis : s.axes) {
    axis = {.image = draw.size(window, 20), .size = window, .stride = stride, .pad_begin = pad};
    axis.map = (axis.image + 2 * pad - window) / stride + 1;
    axis.pad_end = (axis.map - 1) * stride + window - axis.image - pad;
  }
  made.finish = {.bias = draw.size(0, 1) == 1,
                 .residual = !depthwise && draw.size(0, 1) == 1,
                 .relu = draw.size(0, 1) == 1};
  made.image = draw_floats(draw, made.images().size());
  made.filter = draw_floats(draw, s.groups * s.map_channels * s.image_channels * window * window);
  made.bias = draw_floats(draw, s.groups * s.map_channels);
  made.residual = draw_floats(draw, made.maps().size());
  return made;
}

TEST(InferenceConv, GivesTheNumbersOfPlainLoops) {
  if (!has_onednn() || vector_width() != VectorWidth::avx512)
    GTEST_SKIP() << "no blocks of 16 here";
  const uint64_t seed = trireme::testing::test_seed();
  Draw draw(seed);
  int winograd = 0, taken = 0;
  for (int i = 0; i < 40; ++i) {
    const DrawnConv one = drawn_conv(draw, i % 3 == 0);
    std::string why_not;
    const auto conv = OnednnConv::make_for_inference(one.sizes, one.finish, &why_not);
    if (!conv) continue;
    ++taken;
    winograd += std::string(conv->algorithm()) == "winograd";
    const std::vector<float> found = one.run(*conv, false);
    const BlockedSizes maps = one.maps();
    double scale = 1;
    for (int probe = 0; probe < 60; ++probe) {
      const int64_t n = draw.size(0, maps.batch - 1), c = draw.size(0, maps.channels - 1),
                    y = draw.size(0, maps.height - 1), x = draw.size(0, maps.width - 1);
      const double wanted = one.wanted(n, c, y, x);
      scale = std::max(scale, std::fabs(wanted));
      EXPECT_NEAR(found[static_cast<size_t>(maps.at(n, c, y, x))], wanted, 2e-5 * scale) << cat(
          "case ", i, ", ", conv->algorithm(), ", image ", n, ", channel ", c, ", seed ", seed);
    }
    if (one.finish.residual) {
      EXPECT_EQ(one.run(*conv, true), found) << "in place, seed " << seed;
    }
  }
  EXPECT_GT(taken, 30) << "the library turns most sizes down; seed " << seed;
}

TEST(InferenceConv, CutsOneImageByChannels) {
  if (!has_onednn() || vector_width() != VectorWidth::avx512)
    GTEST_SKIP() << "no blocks of 16 here";
  ConvSizes sizes{.batch = 1, .image_channels = 256, .map_channels = 256};
  sizes.image_block = sizes.map_block = 16;
  for (ConvSizes::Axis& axis : sizes.axes) axis = {.image = 14, .map = 14};
  const auto one = OnednnConv::make_for_inference(sizes, {.bias = true}, nullptr);
  ASSERT_NE(one, nullptr);
  EXPECT_GE(one->slices(), 2);
  sizes.groups = 256;
  sizes.image_channels = sizes.map_channels = 1;
  for (ConvSizes::Axis& axis : sizes.axes) {
    axis = {.image = 14, .map = 14, .size = 3, .pad_begin = 1, .pad_end = 1};
  }
  const auto depthwise = OnednnConv::make_for_inference(sizes, {}, nullptr);
  ASSERT_NE(depthwise, nullptr);
  EXPECT_GE(depthwise->slices(), 2);
}

}  // namespace
}  // namespace trireme
