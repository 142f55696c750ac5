// roi_perspective_transform: quadrangles of images turned into upright rectangles.
#include <array>
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/scratch.h"
#include "ops/vision/regions.h"

namespace trireme {
namespace {

constexpr double kNearly = 1e-4;  // places this near to an edge lie on it

template <class T>
struct Quad {
  std::array<T, 4> x, y;  // from the upper left corner, clockwise

  Quad(const T* corners, T scale) {
    for (size_t i = 0; i < 4; ++i) x[i] = corners[2 * i] * scale, y[i] = corners[2 * i + 1] * scale;
  }
  T side(size_t i) const {
    const size_t j = (i + 1) % 4;
    return std::sqrt((x[i] - x[j]) * (x[i] - x[j]) + (y[i] - y[j]) * (y[i] - y[j]));
  }
  // On an edge, or with an odd number of edges to the right.
  bool holds(T at_x, T at_y) const {
    const auto near = static_cast<T>(kNearly);
    bool inside = false;
    for (size_t i = 0; i < 4; ++i) {
      const size_t j = (i + 1) % 4;
      const auto between = [near](T at, T a, T b) {
        return at >= std::min(a, b) - near && at <= std::max(a, b) + near;
      };
      if (std::abs(y[i] - y[j]) < near) {
        if (std::abs(at_y - y[i]) < near && between(at_x, x[i], x[j])) return true;
        continue;
      }
      const T crossing = (at_y - y[i]) * (x[j] - x[i]) / (y[j] - y[i]) + x[i];
      if (between(at_y, y[i], y[j]) && std::abs(crossing - at_x) < near) return true;
      if ((y[i] > at_y) != (y[j] > at_y) && crossing > at_x) inside = !inside;
    }
    return inside;
  }
};

// Sends places of the rectangle to places of the image: x and y are quotients of linear maps. The
// rectangle has the quadrangle's proportion, of `high` places at most down and `wide` across.
template <class T>
std::array<T, 9> rectangle_to(const Quad<T>& q, int64_t high, int64_t wide) {
  const T own_high = (q.side(1) + q.side(3)) / 2, own_wide = (q.side(0) + q.side(2)) / 2;
  const T down = static_cast<T>(std::max<int64_t>(2, high) - 1);
  const auto columns = static_cast<int64_t>(std::round(own_wide * down / own_high)) + 1;
  const T across = static_cast<T>(std::max<int64_t>(2, std::min(columns, wide)) - 1);
  const auto &x = q.x, &y = q.y;
  const T dx1 = x[1] - x[2], dx2 = x[3] - x[2], dx3 = x[0] - x[1] + x[2] - x[3];
  const T dy1 = y[1] - y[2], dy2 = y[3] - y[2], dy3 = y[0] - y[1] + y[2] - y[3];
  const T area = dx1 * dy2 - dx2 * dy1 + static_cast<T>(1e-5);
  std::array<T, 9> m{};
  m[6] = (dx3 * dy2 - dx2 * dy3) / area / across;
  m[7] = (dx1 * dy3 - dx3 * dy1) / area / down;
  m[8] = 1;
  m[0] = (x[1] - x[0] + m[6] * across * x[1]) / across;
  m[1] = (x[3] - x[0] + m[7] * down * x[3]) / down;
  m[2] = x[0];
  m[3] = (y[1] - y[0] + m[6] * across * y[1]) / across;
  m[4] = (y[3] - y[0] + m[7] * down * y[3]) / down;
  m[5] = y[0];
  return m;
}

// The four pixels around a place of the image, cut to it, and their weights.
template <class T>
void pixels_around(T y, T x, int64_t high, int64_t wide, int32_t* pixels, T* weights) {
  y = std::clamp(y, T{0}, static_cast<T>(high - 1));
  x = std::clamp(x, T{0}, static_cast<T>(wide - 1));
  const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  const T down = y - static_cast<T>(top), right = x - static_cast<T>(left);
  for (int i = 0; i < 4; ++i) {
    const int64_t row = std::min(top + i / 2, high - 1), column = std::min(left + i % 2, wide - 1);
    pixels[i] = static_cast<int32_t>(row * wide + column);
    weights[i] = (i / 2 ? down : 1 - down) * (i % 2 ? right : 1 - right);
  }
}

struct Perspective {
  int64_t channels, high, wide, to_high, to_wide;
  float scale;
  RegionImages images;
  explicit Perspective(const KernelSite& site)
      : channels(site.in("X").shape.at(1)),
        high(site.in("X").shape.at(2)),
        wide(site.in("X").shape.at(3)),
        to_high(site.attr<int32_t>("transformed_height")),
        to_wide(site.attr<int32_t>("transformed_width")),
        scale(site.attr<float>("spatial_scale")),
        images(site, "X", "ROIs") {}
  int64_t places() const { return to_high * to_wide; }
};

// First where every place of every region looks, then the values.
template <class T>
BoundKernel perspective(const KernelSite& site) {
  const Perspective s(site);
  const int x_at = site.position("X"), rois_at = site.position("ROIs");
  const int out_at = site.out_position("Out"), mask_at = site.out_position("Mask");
  const int matrix_at = site.out_position("TransformMatrix");
  const int pixels_at = site.out_position("Out2InIdx");
  const int weights_at = site.out_position("Out2InWeights");
  const int64_t regions = s.images.regions();
  const auto parts = static_cast<int>(
      std::clamp<int64_t>(regions, 1, parts_for(regions * s.places() * (s.channels + 8) * 4)));
  BoundKernel made(
      [=](const KernelArgs& k) {
        auto* images = reinterpret_cast<int64_t*>(k.scratch) + k.part * regions;
        s.images.find(k, images);
        const auto [begin, end] = k.range(regions);
        for (int64_t r = begin; r < end; ++r) {
          const Quad<T> quad(k.in<T>(rois_at) + 8 * r, static_cast<T>(s.scale));
          const auto m = rectangle_to(quad, s.to_high, s.to_wide);
          if (k.has_out(matrix_at)) std::copy(m.begin(), m.end(), k.out<T>(matrix_at) + 9 * r);
          for (int64_t place = 0; place < s.places(); ++place) {
            const auto across = static_cast<T>(place % s.to_wide);
            const auto down = static_cast<T>(place / s.to_wide);
            const T over = m[6] * across + m[7] * down + m[8];
            const T x = (m[0] * across + m[1] * down + m[2]) / over;
            const T y = (m[3] * across + m[4] * down + m[5]) / over;
            const T low = T(-0.5 - kNearly), more = T(kNearly - 0.5);
            const bool seen = quad.holds(x, y) && x >= low && y >= low &&
                              x <= static_cast<T>(s.wide) + more &&
                              y <= static_cast<T>(s.high) + more;
            const int64_t at = r * s.places() + place;
            int32_t pixels[4] = {-1, -1, -1, -1};
            T weights[4] = {};
            if (seen) pixels_around(y, x, s.high, s.wide, pixels, weights);
            if (k.has_out(mask_at)) k.out<int32_t>(mask_at)[at] = seen ? 1 : 0;
            if (k.has_out(pixels_at)) std::copy_n(pixels, 4, k.out<int32_t>(pixels_at) + 4 * at);
            if (k.has_out(weights_at)) std::copy_n(weights, 4, k.out<T>(weights_at) + 4 * at);
            for (int64_t c = 0; k.has_out(out_at) && c < s.channels; ++c) {
              const T* plane = k.in<T>(x_at) + (images[r] * s.channels + c) * s.high * s.wide;
              T sum = 0;
              for (int i = 0; seen && i < 4; ++i) sum += weights[i] * plane[pixels[i]];
              k.out<T>(out_at)[(r * s.channels + c) * s.places() + place] = sum;
            }
          }
        }
      },
      parts);
  made.scratch = static_cast<size_t>(regions * parts) * sizeof(int64_t);
  return made;
}

// Parts take channels.
template <class T>
BoundKernel perspective_grad(const KernelSite& site) {
  const Perspective s(site);
  const int pixels_at = site.position("Out2InIdx"), weights_at = site.position("Out2InWeights");
  const int grad_at = site.position("Out@GRAD"), to_at = site.out_position("X@GRAD");
  const int64_t regions = s.images.regions(), batch = site.in("X").shape.at(0);
  const auto parts = static_cast<int>(
      std::clamp<int64_t>(s.channels, 1, parts_for(regions * s.places() * s.channels * 4)));
  BoundKernel made(
      [=](const KernelArgs& k) {
        auto* images = reinterpret_cast<int64_t*>(k.scratch) + k.part * regions;
        s.images.find(k, images);
        const auto [begin, end] = k.range(s.channels);
        T* to = k.out<T>(to_at);
        const int64_t plane = s.high * s.wide;
        for (int64_t n = 0; n < batch; ++n) {
          std::fill(to + (n * s.channels + begin) * plane, to + (n * s.channels + end) * plane,
                    T{0});
        }
        for (int64_t at = 0; at < regions * s.places(); ++at) {
          const int64_t r = at / s.places();
          const int32_t* pixels = k.in<int32_t>(pixels_at) + 4 * at;
          if (pixels[0] < 0) continue;
          for (int64_t c = begin; c < end; ++c) {
            const T grad = k.in<T>(grad_at)[(r * s.channels + c) * s.places() + at % s.places()];
            T* image = to + (images[r] * s.channels + c) * plane;
            for (int i = 0; i < 4; ++i) image[pixels[i]] += grad * k.in<T>(weights_at)[4 * at + i];
          }
        }
      },
      parts);
  made.scratch = static_cast<size_t>(regions * parts) * sizeof(int64_t);
  return made;
}

}  // namespace

void register_perspective(Registry& ops) {
  ops.op("roi_perspective_transform")
      .doc("Quadrangles of images turned into upright rectangles")
      .in("X", "[images, channels, height, width]")
      .in("ROIs", "[regions, 8]: x and y of the corners, from the upper left one clockwise")
      .out("Out",
           "[regions, channels, transformed_height, transformed_width]; 0 beside the quadrangle")
      .out("Mask", "int32 [regions, 1, transformed_height, transformed_width]: 1 inside it")
      .out("TransformMatrix", "[regions, 9]: from places of the rectangle to those of X")
      .out_intermediate("Out2InIdx", "int32 [regions, height, width, 4]: pixels that a place reads")
      .out_intermediate("Out2InWeights", "and their weights")
      .attr("spatial_scale", 1.0f, "what corners are multiplied by")
      .attr("transformed_height", 1, "height of the rectangle")
      .at_least(1)
      .attr("transformed_width", 1, "width of the rectangle")
      .at_least(1)
      .shape([](OpView& op) {
        require_regions(op, "X", "ROIs", 8);
        const ValueInfo& x = op.in("X");
        const Dim regions = op.in("ROIs").shape[0];
        const int64_t high = op.attr<int32_t>("transformed_height");
        const int64_t wide = op.attr<int32_t>("transformed_width");
        op.set_out("Out", x.dtype, {regions, x.shape[1], high, wide});
        op.share_lod("ROIs", "Out");
        op.set_out("Mask", DType::int32, {regions, 1, high, wide});
        op.set_out("TransformMatrix", x.dtype, {regions, 9});
        op.set_out("Out2InIdx", DType::int32, {regions, high, wide, 4});
        op.set_out("Out2InWeights", x.dtype, {regions, high, wide, 4});
      })
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return perspective<T>(site); }))
      .grad({"X", "ROIs", "Out2InIdx", "Out2InWeights"})
      .no_grad({"ROIs"})
      .grad_outs({"Out"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return perspective_grad<T>(site); }))
      .sample([](Draw& d) {
        Tensor rois = make_tensor<double>({2, 8}, {0, 0, 4, 1, 5, 5, 1, 4, 2, 1, 6, 2, 5, 6, 1, 5});
        rois.set_lod({{0, 1, 2}});
        return OpSample{.inputs = {{"X", {d.uniform({2, 2, 6, 6})}}, {"ROIs", {rois}}},
                        .attrs = {{"spatial_scale", 0.9f},
                                  {"transformed_height", int32_t{3}},
                                  {"transformed_width", int32_t{4}}}};
      });
}

}  // namespace trireme
