// Lays windows out as columns, adds columns back to images, and multiplies.
#include "ops/nn/conv_product.h"

#include <algorithm>

#include "cpu/element_math.h"
#include "cpu/independent.h"
#include "cpu/lanes.h"
#include "cpu/vectorised.h"

namespace trireme {
namespace {

// Kept between calls: a steady step asks for no memory.
template <class T>
T* scratch(int64_t count) {
  thread_local std::vector<T> memory;
  if (static_cast<int64_t>(memory.size()) < count) memory.resize(static_cast<size_t>(count));
  return memory.data();
}

// The map positions along an axis whose element `tap` lies inside the image.
struct Inside {
  int64_t begin, end;
  Inside(const WindowAxis& axis, int64_t tap) {
    const int64_t shift = tap * axis.dilation - axis.pad_begin;  // image = at * stride + shift
    begin = shift >= 0 ? 0 : std::min(axis.out, (-shift + axis.stride - 1) / axis.stride);
    const int64_t room = axis.in - shift;
    end = room <= 0 ? 0 : std::min(axis.out, (room + axis.stride - 1) / axis.stride);
    end = std::max(end, begin);
  }
};

// Calls visit(image offset, column offset, length, image step) for every run of pixels that a row
// of the column matrix and one channel of the image share; what lies in the padding is not visited.
template <class Visit>
void walk(const Window& window, int64_t tap_d, int64_t tap_h, int64_t tap_w, const Visit& visit) {
  const auto& [d, h, w] = window;
  const Inside in_d(d, tap_d), in_h(h, tap_h), in_w(w, tap_w);
  if (in_w.begin == in_w.end) return;
  for (int64_t at_d = in_d.begin; at_d < in_d.end; ++at_d) {
    const int64_t image_d = d.start(at_d) + tap_d * d.dilation;
    for (int64_t at_h = in_h.begin; at_h < in_h.end; ++at_h) {
      const int64_t image_h = h.start(at_h) + tap_h * h.dilation;
      const int64_t image_w = w.start(in_w.begin) + tap_w * w.dilation;
      visit((image_d * h.in + image_h) * w.in + image_w, (at_d * h.out + at_h) * w.out + in_w.begin,
            in_w.end - in_w.begin, w.stride);
    }
  }
}

// One group of one image: how its channels and pixels are reached.
template <class T>
struct Plane {
  T* first;
  int64_t channel_step, pixel_step;
};

template <class T>
Plane<T> image_plane(const ConvShape& s, T* images, int64_t n, int64_t group) {
  T* image = images + n * s.image_size();
  if (s.channel_last) return {image + group * s.image_channels, 1, s.groups * s.image_channels};
  const int64_t pixels = in_pixels(s.window);
  return {image + group * s.image_channels * pixels, pixels, 1};
}

// Visits each row of the column matrix: visit(row, channel of the image, taps).
template <class Visit>
void each_row(const ConvShape& s, const Visit& visit) {
  int64_t row = 0;
  for (int64_t c = 0; c < s.image_channels; ++c) {
    for (int64_t d = 0; d < s.window[0].size; ++d) {
      for (int64_t h = 0; h < s.window[1].size; ++h) {
        for (int64_t w = 0; w < s.window[2].size; ++w) visit(row++, c, d, h, w);
      }
    }
  }
}

template <class T>
void to_columns(const ConvShape& s, Plane<const T> image, T* columns) {
  const int64_t pixels = out_pixels(s.window);
  std::fill(columns, columns + s.depth() * pixels, T(0));
  each_row(s, [&](int64_t row, int64_t c, int64_t d, int64_t h, int64_t w) {
    const T* from = image.first + c * image.channel_step;
    T* to = columns + row * pixels;
    walk(s.window, d, h, w, [&](int64_t at, int64_t column, int64_t length, int64_t step) {
      for (int64_t i = 0; i < length; ++i) {
        to[column + i] = from[(at + i * step) * image.pixel_step];
      }
    });
  });
}

template <class T>
void add_columns(const ConvShape& s, const T* columns, Plane<T> image) {
  const int64_t pixels = out_pixels(s.window);
  each_row(s, [&](int64_t row, int64_t c, int64_t d, int64_t h, int64_t w) {
    const T* from = columns + row * pixels;
    T* to = image.first + c * image.channel_step;
    walk(s.window, d, h, w, [&](int64_t at, int64_t column, int64_t length, int64_t step) {
      for (int64_t i = 0; i < length; ++i) {
        to[(at + i * step) * image.pixel_step] += from[column + i];
      }
    });
  });
}

// A 1x1 window with step 1 needs no laying out: the image is its own column matrix.
bool is_its_columns(const ConvShape& s) {
  return !s.channel_last && std::all_of(s.window.begin(), s.window.end(),
                                        [](const WindowAxis& axis) { return axis.trivial(); });
}

template <class T>
const T* columns_of(const ConvShape& s, const T* images, int64_t n, int64_t group) {
  const Plane<const T> plane = image_plane<const T>(s, images, n, group);
  if (is_its_columns(s)) return plane.first;
  T* columns = scratch<T>(s.depth() * out_pixels(s.window));
  to_columns(s, plane, columns);
  return columns;
}

// A group's map as a matrix [map_channels, pixels], or turned over when channels come last.
template <class T>
struct MapMatrix {
  T* first;
  int64_t ld;
};

template <class T>
MapMatrix<T> map_matrix(const ConvShape& s, T* maps, int64_t n, int64_t group) {
  T* map = maps + n * s.map_size();
  if (s.channel_last) return {map + group * s.map_channels, s.groups * s.map_channels};
  const int64_t pixels = out_pixels(s.window);
  return {map + group * s.map_channels * pixels, pixels};
}

}  // namespace

template <class T>
void conv_map(const ConvShape& s, Product<T> product, const T* image, const T* filter, T* map,
              int64_t first, int64_t last) {
  const int64_t pixels = out_pixels(s.window), depth = s.depth();
  for (int64_t n = first; n < last; ++n) {
    for (int64_t group = 0; group < s.groups; ++group) {
      const T* columns = columns_of(s, image, n, group);
      const T* own = filter + group * s.map_channels * depth;
      const MapMatrix<T> to = map_matrix(s, map, n, group);
      if (s.channel_last) {
        product({.m = pixels,
                 .n = s.map_channels,
                 .k = depth,
                 .a = columns,
                 .lda = pixels,
                 .trans_a = true,
                 .b = own,
                 .ldb = depth,
                 .trans_b = true,
                 .c = to.first,
                 .ldc = to.ld});
      } else {
        product({.m = s.map_channels,
                 .n = pixels,
                 .k = depth,
                 .a = own,
                 .lda = depth,
                 .b = columns,
                 .ldb = pixels,
                 .c = to.first,
                 .ldc = to.ld});
      }
    }
  }
}

template <class T>
void conv_image(const ConvShape& s, Product<T> product, const T* map, const T* filter, T* image,
                int64_t first, int64_t last) {
  const int64_t pixels = out_pixels(s.window), depth = s.depth();
  const bool direct = is_its_columns(s);
  if (!direct) std::fill(image + first * s.image_size(), image + last * s.image_size(), T(0));
  for (int64_t n = first; n < last; ++n) {
    for (int64_t group = 0; group < s.groups; ++group) {
      const MapMatrix<const T> from = map_matrix<const T>(s, map, n, group);
      const Plane<T> plane = image_plane<T>(s, image, n, group);
      T* columns = direct ? plane.first : scratch<T>(depth * pixels);
      product({.m = depth,
               .n = pixels,
               .k = s.map_channels,
               .a = filter + group * s.map_channels * depth,
               .lda = depth,
               .trans_a = true,
               .b = from.first,
               .ldb = from.ld,
               .trans_b = s.channel_last,
               .c = columns,
               .ldc = pixels});
      if (!direct) add_columns<T>(s, columns, plane);
    }
  }
}

template <class T>
void conv_filter_grad(const ConvShape& s, Product<T> product, const T* image, const T* map,
                      T* filter_grad) {
  const int64_t pixels = out_pixels(s.window), depth = s.depth();
  std::fill(filter_grad, filter_grad + s.groups * s.map_channels * depth, T(0));
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t group = 0; group < s.groups; ++group) {
      const MapMatrix<const T> from = map_matrix<const T>(s, map, n, group);
      product({.m = s.map_channels,
               .n = depth,
               .k = pixels,
               .a = from.first,
               .lda = from.ld,
               .trans_a = s.channel_last,
               .b = columns_of(s, image, n, group),
               .ldb = pixels,
               .trans_b = true,
               .c = filter_grad + group * s.map_channels * depth,
               .ldc = depth,
               .beta = T(1)});
    }
  }
}

namespace {

// to[i] = act(to[i] + bias[i % period]), a period at a time.
template <class T, class Act>
void add_periods(const T* bias, int64_t period, T* to, int64_t periods, const Act& act) {
  vectorised([=] {
    T* at = to;
    for (int64_t p = 0; p < periods; ++p, at += period) {
      TRIREME_INDEPENDENT
      for (int64_t i = 0; i < period; ++i) at[i] = act(at[i] + bias[i]);
    }
  });
}

template <class T, class Act>
void add_planes(const ChannelBias& s, const T* bias, T* to, const Act& act) {
  vectorised([=, channels = s.channels, pixels = s.pixels] {
    T* at = to;
    for (int64_t c = 0; c < channels; ++c, at += pixels) {
      TRIREME_INDEPENDENT
      for (int64_t p = 0; p < pixels; ++p) at[p] = act(at[p] + bias[c]);
    }
  });
}

// A block that fills no vector is repeated until it does.
constexpr int64_t kWidePeriod = 64, kLongestPeriod = 1024;

template <class T, class Act>
void add_to_images(const ChannelBias& s, const T* bias, T* to, int64_t images, const Act& act) {
  if (s.block == 0) {
    for (int64_t n = 0; n < images; ++n) add_planes(s, bias, to + n * s.channels * s.pixels, act);
    return;
  }
  const int64_t blocks = s.channels / s.block;
  T repeated[kLongestPeriod];
  for (int64_t b = 0; b < blocks; ++b) {
    const T* own = bias + b * s.block;
    int64_t times = 1;
    while ((s.block * times < kWidePeriod || s.block * times % kLanes != 0) &&
           2 * s.block * times <= kLongestPeriod && 2 * times <= s.pixels) {
      times *= 2;
    }
    for (int64_t i = 0; times > 1 && i < times; ++i) {
      std::copy_n(own, s.block, repeated + i * s.block);
    }
    const int64_t whole = s.pixels / times, rest = s.pixels % times;
    for (int64_t n = 0; n < images; ++n) {
      T* at = to + (n * blocks + b) * s.block * s.pixels;
      add_periods(times > 1 ? repeated : own, s.block * times, at, whole, act);
      add_periods(own, s.block, at + whole * times * s.block, rest, act);
    }
  }
}

}  // namespace

template <class T>
void add_bias(const ChannelBias& s, const T* bias, T* to, int64_t first, int64_t last) {
  to += first * s.channels * s.pixels;
  if (s.relu) {
    add_to_images(s, bias, to, last - first, [](T x) { return element::max(x, T(0)); });
  } else {
    add_to_images(s, bias, to, last - first, [](T x) { return x; });
  }
}

template <class T>
void bias_grad(const ChannelBias& s, const T* grad, T* sums) {
  std::fill(sums, sums + s.channels, T(0));
  const int64_t block = s.block == 0 ? 1 : s.block, blocks = s.channels / block;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t p = 0; p < s.pixels; ++p, grad += block) {
        for (int64_t c = 0; c < block; ++c) sums[b * block + c] += grad[c];
      }
    }
  }
}

#define TRIREME_CONV_PRODUCT(T)                                                                   \
  template void conv_map(const ConvShape&, Product<T>, const T*, const T*, T*, int64_t, int64_t); \
  template void conv_image(const ConvShape&, Product<T>, const T*, const T*, T*, int64_t,         \
                           int64_t);                                                              \
  template void conv_filter_grad(const ConvShape&, Product<T>, const T*, const T*, T*);           \
  template void add_bias(const ChannelBias&, const T*, T*, int64_t, int64_t);                     \
  template void bias_grad(const ChannelBias&, const T*, T*);
TRIREME_CONV_PRODUCT(float)
TRIREME_CONV_PRODUCT(double)
#undef TRIREME_CONV_PRODUCT

}  // namespace trireme
