// What one pooling op slides over: sizes, windows and what lies under them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/kernel.h"
#include "ops/nn/window.h"

namespace trireme {

struct Pool {
  ImageLayout layout;
  Window window;
  int64_t batch = 0, channels = 0;
  bool adaptive = false;   // windows cut the image into `out` pieces that may overlap by one
  bool exclusive = false;  // an average counts only what lies inside the image
  Shape out;

  int64_t planes() const { return batch * channels; }
  // Element offset of a plane's first pixel, and the distance between its pixels.
  int64_t first(int64_t plane, int64_t pixels) const {
    return plane / step() * step() * pixels + plane % step();
  }
  int64_t step() const { return layout.block ? layout.block : layout.channel_last ? channels : 1; }
  // Into how many parts the planes may be cut, by shape alone.
  int parts() const {
    constexpr int64_t kReadsPerPart = 16384;
    const int64_t reads = planes() * std::max(in_pixels(window), out_pixels(window) * taps(window));
    return static_cast<int>(std::clamp<int64_t>(std::min(reads / kReadsPerPart, planes()), 1, 64));
  }
};

// The part of the image under one window, along one axis.
struct WindowSpan {
  int64_t begin, end;
  WindowSpan(const Pool& pool, const WindowAxis& axis, int64_t at) {
    if (pool.adaptive) {
      begin = at * axis.in / axis.out;
      end = ((at + 1) * axis.in + axis.out - 1) / axis.out;
    } else {
      begin = std::max<int64_t>(axis.start(at), 0);
      end = std::min(axis.start(at) + axis.size, axis.in);
    }
    end = std::max(end, begin);  // a last window may lie in the padding altogether
  }
  int64_t length() const { return end - begin; }
};

// Calls visit(out pixel, depth span, height span, width span) for every window of a plane.
template <class Visit>
void each_window(const Pool& pool, const Visit& visit) {
  const auto& [d, h, w] = pool.window;
  int64_t at = 0;
  for (int64_t i = 0; i < d.out; ++i) {
    const WindowSpan in_d(pool, d, i);
    for (int64_t j = 0; j < h.out; ++j) {
      const WindowSpan in_h(pool, h, j);
      for (int64_t l = 0; l < w.out; ++l) visit(at++, in_d, in_h, WindowSpan(pool, w, l));
    }
  }
}

// Calls visit(image pixel) for every pixel under a window.
template <class Visit>
void each_pixel(const Pool& pool, const WindowSpan& d, const WindowSpan& h, const WindowSpan& w,
                const Visit& visit) {
  for (int64_t i = d.begin; i < d.end; ++i) {
    for (int64_t j = h.begin; j < h.end; ++j) {
      const int64_t row = (i * pool.window[1].in + j) * pool.window[2].in;
      for (int64_t l = w.begin; l < w.end; ++l) visit(row + l);
    }
  }
}

// What each pixel under a window weighs in its average.
template <class T>
T weight(const Pool& pool, const WindowSpan& d, const WindowSpan& h, const WindowSpan& w) {
  const bool inside = pool.exclusive || pool.adaptive;
  const int64_t count = inside ? d.length() * h.length() * w.length() : taps(pool.window);
  return count == 0 ? T(0) : T(1) / static_cast<T>(count);
}

// NaN is larger than any number, so that it shows.
template <class T>
bool larger(T a, T b) {
  return (a > b) | (a != a);
}

// Of pool2d, pool3d and max_pool2d_with_index; checks the attributes.
Pool pool_site(const OpView& op, int spatial);

}  // namespace trireme
