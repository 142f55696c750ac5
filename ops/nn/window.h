// Windows that slide over an image: the sizes and paddings shared by convolution and pooling.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/op_view.h"

namespace trireme {

// One spatial axis. Position `out` of the window starts at out * stride - pad_begin and reads
// `size` elements, `dilation` apart. Sizes not known while a program is built are -1.
struct WindowAxis {
  int64_t in = 1, out = 1;
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;

  int64_t reach() const { return dilation * (size - 1) + 1; }
  int64_t start(int64_t at) const { return at * stride - pad_begin; }
  bool trivial() const { return size == 1 && stride == 1 && pad_begin == 0 && pad_end == 0; }
};

// Depth, height, width. With two spatial axes the first is trivial, so one loop serves both.
using Window = std::array<WindowAxis, 3>;

int64_t in_pixels(const Window& window);
int64_t out_pixels(const Window& window);
int64_t taps(const Window& window);  // elements the window reads

// Where channels and spatial axes stand in an image tensor.
struct ImageLayout {
  int spatial = 2;
  bool channel_last = false;
  int64_t block = 0;  // not 0: channels in blocks (channel_blocks.h)

  Dim channels(const Shape& shape) const {
    return block ? shape[1] * Dim(block) : shape[channel_last ? spatial + 1 : 1];
  }
  int spatial_axis(int i) const { return i + (channel_last ? 1 : 2); }
  Shape shape(Dim batch, Dim channels, const Window& window_out) const;
};

// From `format` ("NCHW", "NHWC", "NCDHW", "NDHWC", "AnyLayout") and the block; an Error unless
// `slot` has the rank.
ImageLayout image_layout(const OpView& op, std::string_view slot, int spatial,
                         std::string_view format_attr, int64_t block = 0);

// Reads strides, paddings, padding_algorithm and, where the row has them, dilations for windows of
// `sizes` over an image of `extents`. `out` is not set. SAME pads so that out = ceil(in / stride);
// paddings are one number per axis or two (begin, end).
Window window_over(const OpView& op, const std::vector<int64_t>& extents,
                   const std::vector<int64_t>& sizes);

// Sets `out` of each axis to how often the window fits; the last partial window counts when `ceil`.
void place_windows(const OpView& op, Window& window, bool ceil = false);

}  // namespace trireme
