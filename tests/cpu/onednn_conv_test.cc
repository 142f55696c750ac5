// oneDNN takes the sizes that training meets.
#include <gtest/gtest.h>

#include "core/text.h"
#include "cpu/onednn.h"

namespace trireme {
namespace {

struct TrainingConv {
  int64_t batch, channels, side, maps, window, stride, pad;
};

ConvSizes training_sizes(const TrainingConv& c) {
  ConvSizes sizes{.batch = c.batch, .image_channels = c.channels, .map_channels = c.maps};
  for (ConvSizes::Axis& axis : sizes.axes) {
    axis = {.image = c.side,
            .map = (c.side + 2 * c.pad - c.window) / c.stride + 1,
            .size = c.window,
            .stride = c.stride,
            .pad_begin = c.pad};
    axis.pad_end = (axis.map - 1) * c.stride + c.window - c.side - c.pad;
  }
  return sizes;
}

// Turned down, a convolution would still be right, and ten times as slow: nobody would notice.
TEST(OnednnConv, TakesTheSizesOfTrainingInAllPasses) {
  if (!has_onednn()) GTEST_SKIP() << "built without oneDNN";
  const TrainingConv cases[] = {{64, 1, 28, 20, 5, 1, 0},   {64, 20, 12, 50, 5, 1, 0},
                                {8, 3, 224, 64, 7, 2, 3},   {8, 64, 56, 64, 3, 1, 1},
                                {8, 256, 56, 128, 1, 2, 0}, {32, 512, 4, 512, 3, 1, 1},
                                {32, 512, 2, 512, 3, 1, 1}, {7, 24, 15, 100, 3, 1, 1},
                                {5, 48, 9, 66, 3, 2, 1},    {1, 16, 10, 16, 3, 1, 1}};
  for (const TrainingConv& c : cases) {
    for (const ConvResult wanted : {ConvResult::map, ConvResult::image, ConvResult::filter}) {
      ConvSizes sizes = training_sizes(c);
      const auto block = [](int64_t channels) {
        return channels < 16 ? 0 : channels % 16 == 0 ? 16 : channels;
      };
      for (const bool blocks : {false, true}) {
        sizes.image_block = blocks ? block(c.channels) : 0;
        sizes.map_block = blocks ? block(c.maps) : 0;
        std::string why_not;
        EXPECT_NE(OnednnConv::make(sizes, wanted, &why_not), nullptr)
            << cat(c.channels, " channels to ", c.maps, ", wanted ", static_cast<int>(wanted), ", ",
                   blocks ? "blocks" : "plain", ": ", why_not);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
