// Values of an image between its pixels, and what a gradient there gives back.
#pragma once

#include <cmath>
#include <cstdint>

namespace trireme {

// A place in a plane of high x wide pixels: the four around it, each weighed by how near it is.
// Pixels outside are 0.
template <class T>
struct BetweenPixels {
  int64_t high, wide, y = 0, x = 0;  // the pixel above and left
  T down = 0, right = 0;             // how far from it
  bool touches = false;              // any pixel inside

  BetweenPixels(T at_y, T at_x, int64_t high, int64_t wide) : high(high), wide(wide) {
    touches = at_y > -1 && at_x > -1 && at_y < static_cast<T>(high) && at_x < static_cast<T>(wide);
    if (!touches) return;
    y = static_cast<int64_t>(std::floor(at_y));
    x = static_cast<int64_t>(std::floor(at_x));
    down = at_y - static_cast<T>(y);
    right = at_x - static_cast<T>(x);
  }

  T pixel(const T* plane, int64_t i, int64_t j) const {
    return i >= 0 && i < high && j >= 0 && j < wide ? plane[i * wide + j] : T{0};
  }
  T value(const T* plane) const {
    if (!touches) return 0;
    return (1 - down) * ((1 - right) * pixel(plane, y, x) + right * pixel(plane, y, x + 1)) +
           down * ((1 - right) * pixel(plane, y + 1, x) + right * pixel(plane, y + 1, x + 1));
  }
  // By how much the value grows downwards, and to the right.
  T slope_down(const T* plane) const {
    if (!touches) return 0;
    return (1 - right) * (pixel(plane, y + 1, x) - pixel(plane, y, x)) +
           right * (pixel(plane, y + 1, x + 1) - pixel(plane, y, x + 1));
  }
  T slope_right(const T* plane) const {
    if (!touches) return 0;
    return (1 - down) * (pixel(plane, y, x + 1) - pixel(plane, y, x)) +
           down * (pixel(plane, y + 1, x + 1) - pixel(plane, y + 1, x));
  }
  void add(T* plane, T gradient) const {
    if (!touches) return;
    const auto give = [&](int64_t i, int64_t j, T weight) {
      if (i >= 0 && i < high && j >= 0 && j < wide) plane[i * wide + j] += weight * gradient;
    };
    give(y, x, (1 - down) * (1 - right));
    give(y, x + 1, (1 - down) * right);
    give(y + 1, x, down * (1 - right));
    give(y + 1, x + 1, down * right);
  }
};

}  // namespace trireme
