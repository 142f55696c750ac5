// Pooling of images whose channels have planes of their own: rows of windows at a time, and maxima
// of tiles; and the list of pooling kernels.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/independent.h"
#include "cpu/kernels/pool_lanes.h"
#include "cpu/kernels/register.h"
#include "cpu/vectorised.h"

namespace trireme {
namespace {

// Where a plain sweep over rows does: neighbouring pixels are neighbours in memory, and a window
// reads the same elements wherever it stands.
bool sweeps_rows(const Pool& pool) {
  return !pool.adaptive && pool.step() == 1 && pool.window[0].trivial() && pool.window[0].in == 1;
}

// Whether windows are tiles of 2 x 2 that cover the image without overlapping.
bool cuts_tiles(const Pool& pool) {
  const auto fits = [](const WindowAxis& axis) {
    return axis.size == 2 && axis.stride == 2 && axis.pad_begin == 0 && axis.out * 2 == axis.in;
  };
  return sweeps_rows(pool) && fits(pool.window[1]) && fits(pool.window[2]);
}

// Two planes of the calling thread's memory, kept between calls.
template <class T>
T* plane_scratch(const Pool& pool) {
  thread_local std::vector<T> memory;
  const auto wanted = static_cast<size_t>(2 * in_pixels(pool.window));
  if (memory.size() < wanted) memory.resize(wanted);
  return memory.data();
}

// Tiles of 2 x 2 that cover the image. Rows are short, so loops go over the whole plane at once:
// first neighbours in a row, then neighbouring rows. `pairs` holds half a plane.
template <class T>
void tile_max(const Pool& pool, const T* x, T* out, T* pairs) {
  const WindowAxis &h = pool.window[1], &w = pool.window[2];
  const int64_t n = h.in * w.out;
  TRIREME_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T left = x[2 * i], right = x[2 * i + 1];
    pairs[i] = larger(right, left) ? right : left;
  }
  for (int64_t j = 0; j < h.out; ++j, out += w.out, pairs += 2 * w.out) {
    TRIREME_INDEPENDENT
    for (int64_t l = 0; l < w.out; ++l) {
      const T upper = pairs[l], lower = pairs[w.out + l];
      const T top = larger(lower, upper) ? lower : upper;
      out[l] =
          larger(top, std::numeric_limits<T>::lowest()) ? top : std::numeric_limits<T>::lowest();
    }
  }
}

// The windows of a row whose element `tap` lies inside the image.
std::pair<int64_t, int64_t> windows_inside(const WindowAxis& axis, int64_t tap) {
  const int64_t shift = tap - axis.pad_begin;  // image = at * stride + shift
  const int64_t begin = shift >= 0 ? 0 : (-shift + axis.stride - 1) / axis.stride;
  const int64_t room = axis.in - shift;
  const int64_t end = room <= 0 ? 0 : std::min(axis.out, (room + axis.stride - 1) / axis.stride);
  return {std::min(begin, end), end};
}

// Runs body(step) with the step a constant where it is a usual one, so that the loop becomes
// vectors.
template <class Body>
void with_step(int64_t step, const Body& body) {
  if (step == 1) {
    body(std::integral_constant<int64_t, 1>());
  } else if (step == 2) {
    body(std::integral_constant<int64_t, 2>());
  } else {
    body(step);
  }
}

// A row of windows at a time, one of their elements after another: the same order within each
// window as window by window.
template <class T>
void pool_plane(const Pool& pool, bool max, const T* x, T* out) {
  const auto& [d, h, w] = pool.window;
  for (int64_t j = 0; j < h.out; ++j, out += w.out) {
    const WindowSpan in_h(pool, h, j);
    std::fill(out, out + w.out, max ? std::numeric_limits<T>::lowest() : T(0));
    for (int64_t i = in_h.begin; i < in_h.end; ++i) {
      for (int64_t tap = 0; tap < w.size; ++tap) {
        const auto [begin, end] = windows_inside(w, tap);
        const T* from = x + i * w.in + begin * w.stride + tap - w.pad_begin;
        T* to = out + begin;
        with_step(w.stride, [&, n = end - begin](auto step) {
          for (int64_t l = 0; l < n; ++l) {
            const T value = from[l * step];
            to[l] = max ? (larger(value, to[l]) ? value : to[l]) : to[l] + value;
          }
        });
      }
    }
    if (max) continue;
    const WindowSpan in_d(pool, d, 0);
    for (int64_t l = 0; l < w.out; ++l)
      out[l] *= weight<T>(pool, in_d, in_h, WindowSpan(pool, w, l));
  }
}

// The gradient of a maximum over tiles: every pixel is written once, and the first pixel of a tile
// that has the maximum gets all. `halves` holds two planes: left and right pixels of the tiles, and
// their gradients, so that the loops over short rows step by one.
template <class T>
void tile_max_grad(const Pool& pool, const T* x, const T* out, const T* grad, T* x_grad,
                   T* halves) {
  const WindowAxis &h = pool.window[1], &w = pool.window[2];
  const int64_t n = h.in * w.out;
  T *left = halves, *right = left + n, *left_grad = right + n, *right_grad = left_grad + n;
  TRIREME_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    left[i] = x[2 * i];
    right[i] = x[2 * i + 1];
  }
  for (int64_t j = 0; j < h.out; ++j, out += w.out, grad += w.out) {
    const int64_t upper = 2 * j * w.out, lower = upper + w.out;
    TRIREME_INDEPENDENT
    for (int64_t l = 0; l < w.out; ++l) {
      const T top = out[l], share = grad[l];
      const bool first = left[upper + l] == top, second = right[upper + l] == top,
                 third = left[lower + l] == top, fourth = right[lower + l] == top;
      left_grad[upper + l] = first ? share : T(0);
      right_grad[upper + l] = (second & !first) ? share : T(0);
      left_grad[lower + l] = (third & !(first | second)) ? share : T(0);
      right_grad[lower + l] = (fourth & !(first | second | third)) ? share : T(0);
    }
  }
  TRIREME_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    x_grad[2 * i] = left_grad[i];
    x_grad[2 * i + 1] = right_grad[i];
  }
}

template <class T>
BoundKernel pool_rows(const Pool& pool, bool max) {
  return BoundKernel(
      [pool, max, tiles = max && cuts_tiles(pool)](const KernelArgs& k) {
        const auto [begin, end] = k.range(pool.planes());
        for (int64_t plane = begin; plane < end; ++plane) {
          const T* x = k.in<T>(0) + plane * in_pixels(pool.window);
          T* out = k.out<T>(0) + plane * out_pixels(pool.window);
          if (tiles) {
            vectorised(
                [=, &pool, pairs = plane_scratch<T>(pool)] { tile_max(pool, x, out, pairs); });
          } else {
            vectorised([&] { pool_plane(pool, max, x, out); });
          }
        }
      },
      pool.parts());
}

template <class T>
BoundKernel pool_tiles_grad(const KernelSite& site, const Pool& pool) {
  const int x_at = site.position("X"), out_at = site.position("Out"),
            grad_at = site.position("Out@GRAD"), x_grad_at = site.out_position("X@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(pool.planes());
        const int64_t in = in_pixels(pool.window), out = out_pixels(pool.window);
        for (int64_t plane = begin; plane < end; ++plane) {
          vectorised([=, &pool, &k, halves = plane_scratch<T>(pool)] {
            tile_max_grad(pool, k.in<T>(x_at) + plane * in, k.in<T>(out_at) + plane * out,
                          k.in<T>(grad_at) + plane * out, k.out<T>(x_grad_at) + plane * in, halves);
          });
        }
      },
      pool.parts());
}

bool is_max(const KernelSite& site) { return site.attr<std::string>("pooling_type") == "max"; }

std::nullopt_t declined(std::string* why_not, const char* reason) {
  if (why_not) *why_not = reason;
  return std::nullopt;
}

std::vector<Kernel> forward_kernels(int spatial) {
  const auto lanes = [=](const KernelSite& site,
                         std::string* why_not) -> std::optional<BoundKernel> {
    const Pool pool = pool_site(site, spatial);
    if (kernel_dtype(site) != DType::float32) return declined(why_not, "only for float32");
    if (pool.step() <= 1) return declined(why_not, "channels do not stand side by side");
    return pool_lanes(pool, is_max(site));
  };
  const auto rows = [=](const KernelSite& site,
                        std::string* why_not) -> std::optional<BoundKernel> {
    if (!sweeps_rows(pool_site(site, spatial))) return declined(why_not, "windows are not even");
    return typed<float, double>([=]<class T>(const KernelSite& at) {
      return pool_rows<T>(pool_site(at, spatial), is_max(at));
    })(site, why_not);
  };
  return {{"lanes", lanes}, {"rows", rows}};
}

std::vector<Kernel> backward_kernels(int spatial) {
  const auto lanes = [=](const KernelSite& site,
                         std::string* why_not) -> std::optional<BoundKernel> {
    const Pool pool = pool_site(site, spatial);
    if (kernel_dtype(site) != DType::float32) return declined(why_not, "only for float32");
    if (pool.step() <= 1) return declined(why_not, "channels do not stand side by side");
    return pool_lanes_grad(site, pool, is_max(site));
  };
  const auto tiles = [=](const KernelSite& site,
                         std::string* why_not) -> std::optional<BoundKernel> {
    const Pool pool = pool_site(site, spatial);
    if (!is_max(site) || !cuts_tiles(pool)) return declined(why_not, "only maxima of 2 x 2 tiles");
    return typed<float, double>(
        [=]<class T>(const KernelSite& at) { return pool_tiles_grad<T>(at, pool); })(site, why_not);
  };
  return {{"lanes", lanes}, {"tiles", tiles}};
}

}  // namespace

void add_pool_kernels(Registry& ops) {
  ops.add_kernels("pool2d", forward_kernels(2));
  ops.add_kernels("pool2d_grad", backward_kernels(2));
  ops.add_kernels("pool3d", forward_kernels(3));
  ops.add_kernels("pool3d_grad", backward_kernels(3));
}

}  // namespace trireme
