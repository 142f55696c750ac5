// Convolution as matrix products: each image's windows are laid out as columns of a matrix.
#pragma once

#include "cpu/gemm_kernel.h"
#include "ops/nn/window.h"

namespace trireme {

// A convolution relates an image, over which the window slides, to a map with one pixel per window.
// conv2d reads the image and writes the map; its transpose, and its gradient, read the map and
// write the image. The filter is [groups * map_channels, image_channels, taps] in every case.
struct ConvShape {
  int64_t batch = 0, groups = 1;
  int64_t image_channels = 0, map_channels = 0;  // per group
  Window window;                                 // in: the image, out: the map
  bool channel_last = false;
  int64_t image_block = 0, map_block = 0;  // not 0: channels in blocks; the functions below take
                                           // plain images only

  int64_t image_size() const { return groups * image_channels * in_pixels(window); }
  int64_t map_size() const { return groups * map_channels * out_pixels(window); }
  int64_t depth() const { return image_channels * taps(window); }  // rows of a column matrix
};

// map = filter * columns(image), for images [first, last) of the batch.
template <class T>
void conv_map(const ConvShape& shape, Product<T> product, const T* image, const T* filter, T* map,
              int64_t first, int64_t last);

// image = the transpose of that, applied to the map: every pixel sums what its windows give it.
template <class T>
void conv_image(const ConvShape& shape, Product<T> product, const T* map, const T* filter, T* image,
                int64_t first, int64_t last);

// filter_grad = sum over the batch of map * columns(image)', in the batch's order.
template <class T>
void conv_filter_grad(const ConvShape& shape, Product<T> product, const T* image, const T* map,
                      T* filter_grad);

// One number per channel: added to every pixel, and its gradient.
struct ChannelBias {
  int64_t batch = 0, channels = 0, pixels = 0;
  int64_t block = 0;  // channels that stand side by side at a pixel; 0: each has a plane of its own
  bool relu = false;  // of the sum
};
template <class T>
void add_bias(const ChannelBias& shape, const T* bias, T* to, int64_t first, int64_t last);
template <class T>
void bias_grad(const ChannelBias& shape, const T* grad, T* sums);

}  // namespace trireme
