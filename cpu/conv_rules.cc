// Which algorithm a convolution takes and how it is cut: by sizes alone, measured beforehand.
#include <algorithm>
#include <bit>

#include "cpu/onednn.h"
#include "cpu/vectorised.h"

namespace trireme {
namespace {

// Pixels of a slice that pay for transforming the filter once per slice, in units of the larger
// channel count: from 3 on Winograd is ahead of direct convolution, from 12 on it is at its best.
constexpr int64_t kEnoughPixels = 3, kManyPixels = 12;
constexpr int kMostSlices = 8;
constexpr int64_t kPixelsPerFilter = 128;  // of a slice

int64_t map_pixels(const ConvSizes& s) { return s.axes[0].map * s.axes[1].map; }
int64_t widest(const ConvSizes& s) { return std::max(s.image_channels, s.map_channels); }

int winograd_slices(const ConvSizes& s) {
  const int64_t pixels = s.batch * map_pixels(s);
  const int64_t wanted = std::max(pixels / (kManyPixels * widest(s)),
                                  std::min<int64_t>(2, pixels / (kEnoughPixels * widest(s))));
  const int64_t most = std::min<int64_t>({wanted, s.batch, kMostSlices});
  return most < 1 ? 0 : static_cast<int>(std::bit_floor(static_cast<uint64_t>(most)));
}

}  // namespace

namespace {

bool winograd_has(const ConvSizes& s) {
  if (!s.winograd || s.groups != 1 || s.channel_last) return false;
  if (vector_width() != VectorWidth::avx512) return false;  // the library has it for these alone
  for (const ConvSizes::Axis& axis : s.axes) {
    if (axis.size != 3 || axis.stride != 1 || axis.dilation != 1) return false;
    if (axis.map < 7 || axis.pad_begin > 1 || axis.pad_end > 1) return false;
  }
  const auto fits = [](int64_t channels) {
    return channels >= 64 && channels <= 512 && channels % 16 == 0;
  };
  return fits(s.image_channels) && fits(s.map_channels);
}

}  // namespace

bool takes_winograd(const ConvSizes& s) { return winograd_has(s) && winograd_slices(s) >= 2; }

bool takes_winograd_for_inference(const ConvSizes& s) {
  return s.batch > 0 && s.image_block == 16 && s.map_block == 16 && winograd_has(s);
}

int conv_slices(const ConvSizes& s, ConvResult wanted) {
  int64_t slices = takes_winograd(s) ? winograd_slices(s) : kMostSlices;
  if (wanted != ConvResult::filter && !takes_winograd(s)) {
    // Every slice reads the whole filter: with few pixels that is most of its time.
    slices = std::max<int64_t>(2, s.batch * map_pixels(s) / kPixelsPerFilter);
  }
  if (wanted == ConvResult::filter && !takes_winograd(s)) {
    // Every slice writes a filter gradient of its own, which costs as much as some 256 pixels.
    slices = std::max<int64_t>(2, s.batch * map_pixels(s) / 1024);
  }
  slices =
      std::clamp<int64_t>(slices, 1, std::min<int64_t>(std::max<int64_t>(s.batch, 1), kMostSlices));
  return static_cast<int>(std::bit_floor(static_cast<uint64_t>(slices)));
}

}  // namespace trireme
