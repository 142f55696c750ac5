// Bias and relu as oneDNN's post-ops: which convolutions take them, and that no bit tells.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "core/text.h"
#include "cpu/onednn.h"
#include "cpu/vectorised.h"
#include "tests/support/seed.h"

namespace trireme {
namespace {

struct Windowed {
  int64_t batch = 1, groups = 1, channels = 16, maps = 16;  // channels per group
  int64_t side = 9, window = 3, stride = 1, dilation = 1, pad = 1;
  bool blocks = true;
};

int64_t block_of(int64_t channels) { return channels % 16 == 0 ? 16 : channels; }

ConvSizes behind_sizes(const Windowed& c) {
  ConvSizes sizes{
      .batch = c.batch, .groups = c.groups, .image_channels = c.channels, .map_channels = c.maps};
  if (c.blocks) {  // few image channels stay plain
    sizes.image_block = c.groups * c.channels < 16 ? 0 : block_of(c.groups * c.channels);
    sizes.map_block = block_of(c.groups * c.maps);
  }
  for (ConvSizes::Axis& axis : sizes.axes) {
    const int64_t reach = c.dilation * (c.window - 1) + 1;
    axis = {.image = c.side,
            .map = (c.side + 2 * c.pad - reach) / c.stride + 1,
            .size = c.window,
            .stride = c.stride,
            .dilation = c.dilation,
            .pad_begin = c.pad};
    axis.pad_end = (axis.map - 1) * c.stride + reach - c.side - c.pad;
  }
  return sizes;
}

bool adds_bias(const Windowed& c, ConvBehind behind = ConvBehind::bias_and_relu) {
  const auto conv = OnednnConv::make(behind_sizes(c), ConvResult::map, nullptr, behind);
  bool all = conv != nullptr;
  for (int i = 0; all && i < conv->slices(); ++i) all = conv->adds_bias(i);
  return all;
}

TEST(ConvBehind, DirectKernelsAddTheBias) {
  if (!has_onednn()) GTEST_SKIP() << "built without oneDNN";
  if (vector_width() != VectorWidth::avx512) GTEST_SKIP() << "blocks of 16 need wider vectors";
  const Windowed cases[] = {
      {.batch = 32, .channels = 512, .maps = 512, .side = 4},
      {.batch = 64, .channels = 20, .maps = 50, .side = 12, .window = 5, .pad = 0},
      {.batch = 5, .channels = 2048, .maps = 64, .side = 7, .window = 1, .pad = 0},
      {.batch = 3, .groups = 2, .channels = 256, .maps = 16},
      {.batch = 2, .channels = 256, .maps = 32, .stride = 2},
      {.batch = 2, .channels = 256, .maps = 32, .dilation = 2, .pad = 2},
  };
  for (const Windowed& c : cases) {
    EXPECT_TRUE(adds_bias(c)) << c.channels << " channels to " << c.maps;
    EXPECT_TRUE(adds_bias(c, ConvBehind::bias)) << c.channels << " channels to " << c.maps;
    EXPECT_FALSE(adds_bias(c, ConvBehind::nothing)) << c.channels << " channels to " << c.maps;
  }
}

TEST(ConvBehind, OthersLeaveItToTheCaller) {
  if (!has_onednn()) GTEST_SKIP() << "built without oneDNN";
  const Windowed winograd{.batch = 32, .channels = 64, .maps = 64, .side = 32};
  EXPECT_EQ(takes_winograd(behind_sizes(winograd)), vector_width() == VectorWidth::avx512);
  if (takes_winograd(behind_sizes(winograd))) {
    EXPECT_FALSE(adds_bias(winograd));
  }
  EXPECT_FALSE(adds_bias({.groups = 64, .channels = 1, .maps = 1})) << "depthwise";
  EXPECT_FALSE(adds_bias({.channels = 3, .maps = 64, .side = 32})) << "few products a number";
  EXPECT_FALSE(adds_bias({.channels = 256, .maps = 32, .blocks = false})) << "the map is reordered";
}

// A vector that ends where memory ends: reading past it would be noticed.
class LastOfMemory {
 public:
  explicit LastOfMemory(size_t count) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    while (page_ < count * sizeof(float)) page_ *= 2;
    void* mapped =
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(mapped);
    mprotect(base_ + page_, page_, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + page_) - count;
  }
  LastOfMemory(const LastOfMemory&) = delete;
  LastOfMemory& operator=(const LastOfMemory&) = delete;
  ~LastOfMemory() { munmap(base_, 2 * page_); }
  float* data() const { return data_; }

 private:
  size_t page_;
  std::byte* base_ = nullptr;
  float* data_ = nullptr;
};

std::vector<float> made_map(const ConvSizes& s, OnednnConv& conv, std::vector<float> image,
                            std::vector<float> filter, const float* bias) {
  std::vector<float> map(
      static_cast<size_t>(s.batch * s.groups * s.map_channels * s.axes[0].map * s.axes[1].map),
      NAN);
  std::vector<std::byte> room(conv.scratch() + 64);
  auto* scratch =
      reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64);
  const OnednnConv::Tensors tensors{image.data(), map.data(), filter.data(), bias};
  for (int i = 0; i < conv.filter_pieces(); ++i) conv.pack_filter(i, tensors, scratch);
  for (int i = 0; i < conv.slices(); ++i) conv.run_slice(i, tensors, scratch);
  return map;
}

// What stands behind the map, by its definition. relu(NaN) and relu(-0) are 0.
void finish(const ConvSizes& s, ConvBehind behind, const float* bias, std::vector<float>& map) {
  const int64_t channels = s.groups * s.map_channels, pixels = s.axes[0].map * s.axes[1].map;
  const int64_t block = s.map_block == 0 ? 1 : s.map_block;
  for (size_t i = 0; i < map.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) % (channels * pixels);
    map[i] += bias[at / (block * pixels) * block + at % block];
    if (behind == ConvBehind::bias_and_relu) map[i] = map[i] > 0 ? map[i] : 0;
  }
}

TEST(ConvBehind, NoBitTellsWhoAddedTheBias) {
  if (!has_onednn()) GTEST_SKIP() << "built without oneDNN";
  std::mt19937 random(static_cast<uint32_t>(testing::test_seed()));
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const float odd[] = {NAN,      -0.f,      0.f,
                       INFINITY, -INFINITY, std::numeric_limits<float>::denorm_min()};
  const auto numbers = [&](int64_t count, bool oddities) {
    std::uniform_real_distribution<float> number(-1, 1);
    std::vector<float> made(static_cast<size_t>(count));
    for (float& x : made) x = oddities && draw(0, 40) == 0 ? odd[draw(0, 5)] : number(random);
    return made;
  };
  int added = 0;
  // Never in both: which of two NaNs a sum is has no rule, and two loops may differ.
  enum class Odd { none, image, bias };
  for (int round = 0; round < 60; ++round) {
    Windowed c{.batch = draw(1, 5),
               .side = draw(7, 12),
               .window = draw(0, 1) ? 3 : 2 * draw(0, 2) + 1,
               .stride = draw(1, 2),
               .dilation = draw(1, 2),
               .pad = draw(0, 1),
               .blocks = draw(0, 5) > 0};
    if (c.dilation * (c.window - 1) >= c.side) c.dilation = 1;
    switch (draw(0, 3)) {
      case 0:  // blocks of 16
        c.channels = 16 * draw(15, 20), c.maps = 16 * draw(1, 3);
        if (c.window == 1) c.channels = 2048;
        break;
      case 1:  // channels last
        c.channels = draw(22, 60), c.maps = draw(5, 60);
        break;
      case 2:  // few image channels
        c.channels = draw(3, 8), c.maps = draw(0, 1) ? 16 : draw(5, 60), c.window = 5, c.pad = 2;
        c.dilation = 1;
        break;
      default:
        c.groups = draw(2, 3), c.channels = draw(0, 1) ? 240 : draw(22, 40);
        c.maps = c.channels == 240 ? 16 : draw(1, 20);
    }
    const ConvSizes s = behind_sizes(c);
    const ConvBehind behind = draw(0, 1) ? ConvBehind::bias : ConvBehind::bias_and_relu;
    const auto bare = OnednnConv::make(s, ConvResult::map, nullptr),
               whole = OnednnConv::make(s, ConvResult::map, nullptr, behind);
    ASSERT_EQ(bare != nullptr, whole != nullptr);
    bool adds = whole != nullptr;
    for (int i = 0; adds && i < whole->slices(); ++i) adds = whole->adds_bias(i);
    if (!adds) continue;
    ++added;
    for (const Odd where : {Odd::none, Odd::image, Odd::bias}) {
      const auto image =
          numbers(s.batch * s.groups * s.image_channels * c.side * c.side, where == Odd::image);
      const auto filter =
          numbers(s.groups * s.map_channels * s.image_channels * c.window * c.window, false);
      const auto given = numbers(s.groups * s.map_channels, where == Odd::bias);
      const LastOfMemory bias(given.size());
      std::copy(given.begin(), given.end(), bias.data());
      auto expected = made_map(s, *bare, image, filter, nullptr);
      finish(s, behind, bias.data(), expected);
      const auto map = made_map(s, *whole, image, filter, bias.data());
      size_t other = 0;
      while (other < map.size() &&
             std::bit_cast<uint32_t>(map[other]) == std::bit_cast<uint32_t>(expected[other])) {
        ++other;
      }
      ASSERT_EQ(other, map.size())
          << map[other] << " for " << expected[other] << ": batch " << c.batch << ", " << c.groups
          << " groups of " << c.channels << " channels to " << c.maps << ", side " << c.side
          << ", window " << c.window << ", stride " << c.stride << ", dilation " << c.dilation
          << (behind == ConvBehind::bias ? "" : ", relu")
          << ", odd numbers: " << static_cast<int>(where);
    }
  }
  if (vector_width() == VectorWidth::avx512) {
    EXPECT_GT(added, 10);
  }
}

}  // namespace
}  // namespace trireme
