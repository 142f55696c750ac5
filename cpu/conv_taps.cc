// Filter gradients tap by tap: one product per element of the window.
#include "cpu/conv_taps.h"

#include <algorithm>
#include <vector>

#include "cpu/staging.h"

namespace trireme {
namespace {

constexpr int64_t kRowsOfPiece = 64;  // output channels: their taps stay in the cache until turned

// Positions of the map, along one axis, at which an element of the window lies in the image.
struct Inside {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

Inside inside(const ConvSizes::Axis& axis, int64_t element) {
  const int64_t shift = axis.pad_begin - element * axis.dilation;  // image = map * stride - shift
  Inside at;
  at.begin = std::min(axis.map, shift <= 0 ? 0 : (shift + axis.stride - 1) / axis.stride);
  const int64_t last = axis.image - 1 + shift;
  at.end = last < 0 ? at.begin : std::clamp(last / axis.stride + 1, at.begin, axis.map);
  return at;
}

struct Tap {
  int64_t y = 0, x = 0;        // in the window
  Inside down, across;         // of the map
  int64_t pixels = 0;          // of the whole batch
  int64_t map = 0, image = 0;  // where its rows begin in the scratch memory, in floats
};

// Images whose channels stand in blocks.
struct Pixels {
  const float* data = nullptr;
  int64_t channels = 0, block = 0, height = 0, width = 0;

  // Rows of channels: pixel (y, x) of image n, then `count` more to its right, `step` apart.
  void gather(int64_t n, int64_t y, int64_t x, int64_t step, int64_t count, float* rows) const {
    const int64_t blocks = channels / block;
    for (int64_t b = 0; b < blocks; ++b) {
      const float* from = data + (((n * blocks + b) * height + y) * width + x) * block;
      float* to = rows + b * block;
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(from + i * step * block, block, to + i * channels);
      }
    }
  }
};

class ConvTaps : public OnednnConv {
 public:
  explicit ConvTaps(const ConvSizes& sizes) : s_(sizes) {
    const auto& [h, w] = s_.axes;
    for (int64_t y = 0; y < h.size; ++y) {
      for (int64_t x = 0; x < w.size; ++x) {
        Tap tap{.y = y, .x = x, .down = inside(h, y), .across = inside(w, x)};
        tap.pixels = s_.batch * tap.down.size() * tap.across.size();
        tap.map = floats_;
        tap.image = tap.map + tap.pixels * s_.map_channels;
        floats_ = tap.image + tap.pixels * s_.image_channels;
        taps_.push_back(tap);
      }
    }
  }

  const char* algorithm() const override { return "taps"; }
  // The gathered rows, then the gradient with the taps outermost.
  size_t scratch() const override {
    return static_cast<size_t>(floats_ + taps() * s_.map_channels * s_.image_channels) *
           sizeof(float);
  }
  int filter_pieces() const override { return 0; }
  int slices() const override { return static_cast<int>(2 * taps()); }
  int sum_pieces() const override {
    return static_cast<int>((s_.map_channels + kRowsOfPiece - 1) / kRowsOfPiece);
  }
  void pack_filter(int, const Tensors&, std::byte*) override {}

  // A slice lays out one operand of one tap's product.
  void run_slice(int slice, const Tensors& tensors, std::byte* scratch) override {
    const Tap& tap = taps_[static_cast<size_t>(slice / 2)];
    const auto& [h, w] = s_.axes;
    const bool of_map = slice % 2 == 0;
    const Pixels pixels =
        of_map ? Pixels{tensors.map, s_.map_channels, s_.map_block, h.map, w.map}
               : Pixels{tensors.image, s_.image_channels, s_.image_block, h.image, w.image};
    float* rows = reinterpret_cast<float*>(scratch) + (of_map ? tap.map : tap.image);
    for (int64_t n = 0; n < s_.batch; ++n) {
      for (int64_t at = tap.down.begin; at < tap.down.end; ++at) {
        const int64_t y = of_map ? at : at * h.stride - h.pad_begin + tap.y * h.dilation;
        const int64_t x = of_map ? tap.across.begin
                                 : tap.across.begin * w.stride - w.pad_begin + tap.x * w.dilation;
        pixels.gather(n, y, x, of_map ? 1 : w.stride, tap.across.size(), rows);
        rows += tap.across.size() * pixels.channels;
      }
    }
  }

  // A piece makes the gradient of some output channels.
  void sum_filter(int piece, const Tensors& tensors, std::byte* scratch) override {
    const int64_t first = piece * kRowsOfPiece,
                  count = std::min(kRowsOfPiece, s_.map_channels - first);
    const auto* rows = reinterpret_cast<const float*>(scratch);
    float* result = tensors.filter + first * s_.image_channels * taps();
    const int64_t tap_size = count * s_.image_channels;
    float* products =
        reinterpret_cast<float*>(scratch) + floats_ + first * s_.image_channels * taps();
    for (size_t t = 0; t < taps_.size(); ++t) {
      onednn_gemm({.m = count,
                   .n = s_.image_channels,
                   .k = taps_[t].pixels,
                   .a = rows + taps_[t].map + first,
                   .lda = s_.map_channels,
                   .trans_a = true,
                   .b = rows + taps_[t].image,
                   .ldb = s_.image_channels,
                   .c = products + static_cast<int64_t>(t) * tap_size,
                   .ldc = s_.image_channels});
    }
    for (int64_t o = 0; o < count; ++o) {
      turn_rows({.from = products + o * s_.image_channels,
                 .rows = taps(),
                 .columns = s_.image_channels,
                 .pitch = tap_size},
                result + o * s_.image_channels * taps(), taps());
    }
  }

 private:
  int64_t taps() const { return static_cast<int64_t>(taps_.size()); }

  ConvSizes s_;
  std::vector<Tap> taps_;
  int64_t floats_ = 0;  // of all gathered rows
};

}  // namespace

bool takes_taps(const ConvSizes& s) {
  const auto& [h, w] = s.axes;
  if (s.groups != 1 || s.image_block == 0 || s.map_block == 0 || takes_winograd(s)) return false;
  return h.size * w.size > 1 &&
         s.batch * h.map * w.map <= std::max(s.image_channels, s.map_channels);
}

std::unique_ptr<OnednnConv> make_conv_taps(const ConvSizes& sizes) {
  return std::make_unique<ConvTaps>(sizes);
}

}  // namespace trireme
