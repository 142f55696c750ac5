// Filter gradients tap by tap against the definition.
#include "cpu/conv_taps.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/text.h"
#include "tests/support/seed.h"

namespace trireme {
namespace {

// Where a number of a [batch, channels, h, w] image stands when its channels are in blocks.
int64_t in_blocks(int64_t n, int64_t c, int64_t y, int64_t x, int64_t channels, int64_t block,
                  const ConvSizes::Axis& h, const ConvSizes::Axis& w, bool map) {
  const int64_t height = map ? h.map : h.image, width = map ? w.map : w.image;
  return (((n * (channels / block) + c / block) * height + y) * width + x) * block + c % block;
}

// The definition, in double.
std::vector<double> gradient_by_loops(const ConvSizes& s, const std::vector<float>& image,
                                      const std::vector<float>& map) {
  const auto& [h, w] = s.axes;
  std::vector<double> sums;
  for (int64_t o = 0; o < s.map_channels; ++o) {
    for (int64_t i = 0; i < s.image_channels; ++i) {
      for (int64_t ky = 0; ky < h.size; ++ky) {
        for (int64_t kx = 0; kx < w.size; ++kx) {
          double sum = 0;
          for (int64_t n = 0; n < s.batch; ++n) {
            for (int64_t my = 0; my < h.map; ++my) {
              for (int64_t mx = 0; mx < w.map; ++mx) {
                const int64_t y = my * h.stride - h.pad_begin + ky * h.dilation,
                              x = mx * w.stride - w.pad_begin + kx * w.dilation;
                if (y < 0 || y >= h.image || x < 0 || x >= w.image) continue;
                sum += double{image[in_blocks(n, i, y, x, s.image_channels, s.image_block, h, w,
                                              false)]} *
                       map[in_blocks(n, o, my, mx, s.map_channels, s.map_block, h, w, true)];
              }
            }
          }
          sums.push_back(sum);
        }
      }
    }
  }
  return sums;
}

std::vector<float> gradient_by_taps(const ConvSizes& s, std::vector<float> image,
                                    std::vector<float> map) {
  const auto conv = make_conv_taps(s);
  const size_t count = s.map_channels * s.image_channels * s.axes[0].size * s.axes[1].size;
  std::vector<float> filter(count, NAN);
  std::vector<std::byte> scratch(conv->scratch());
  const OnednnConv::Tensors tensors{image.data(), map.data(), filter.data()};
  for (int i = 0; i < conv->slices(); ++i) conv->run_slice(i, tensors, scratch.data());
  for (int i = 0; i < conv->sum_pieces(); ++i) conv->sum_filter(i, tensors, scratch.data());
  return filter;
}

TEST(ConvTaps, IsTheGradientOfTheFilterForAnyWindow) {
  if (!has_onednn()) GTEST_SKIP() << "built without oneDNN";
  std::mt19937 random(static_cast<uint32_t>(testing::test_seed()));
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::uniform_real_distribution<float> number(-1, 1);
  for (int round = 0; round < 40; ++round) {
    ConvSizes s{.batch = draw(1, 4)};
    s.image_block = draw(0, 1) ? 16 : 5;
    s.map_block = draw(0, 1) ? 16 : 7;
    s.image_channels = s.image_block * draw(1, 2);
    s.map_channels = s.map_block * draw(1, 5);
    for (ConvSizes::Axis& axis : s.axes) {
      axis = {
          .image = draw(1, 6), .size = draw(1, 3), .stride = draw(1, 3), .dilation = draw(1, 2)};
      const int64_t reach = axis.dilation * (axis.size - 1) + 1;
      axis.pad_begin = draw(0, reach);
      axis.map = (std::max<int64_t>(axis.image + axis.pad_begin + draw(0, 2), reach) - reach) /
                     axis.stride +
                 1;
    }
    const auto& [h, w] = s.axes;
    std::vector<float> image(s.batch * s.image_channels * h.image * w.image),
        map(s.batch * s.map_channels * h.map * w.map);
    for (float& x : image) x = number(random);
    for (float& x : map) x = number(random);
    const std::vector<double> expected = gradient_by_loops(s, image, map);
    const std::vector<float> found = gradient_by_taps(s, image, map);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-4)
          << cat("element ", i, ", window ", h.size, " x ", w.size, ", map ", h.map, " x ", w.map);
    }
  }
}

TEST(ConvTaps, AreTakenWhereChannelsOutnumberPixels) {
  ConvSizes s{.batch = 32, .image_channels = 512, .map_channels = 512};
  for (ConvSizes::Axis& axis : s.axes) axis = {.image = 4, .map = 4, .size = 3, .pad_begin = 1};
  EXPECT_FALSE(takes_taps(s)) << "plain images";
  s.image_block = s.map_block = 16;
  EXPECT_TRUE(takes_taps(s));
  s.batch = 33;
  EXPECT_FALSE(takes_taps(s));
}

}  // namespace
}  // namespace trireme
