// Images looked at through a grid of places: affine_grid, grid_sampler.
#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/vision/between_pixels.h"

namespace trireme {
namespace {

// ---- affine_grid

Shape grid_shape(const OpView& op) {
  const auto attr = op.attr<std::vector<int32_t>>("output_shape");
  std::vector<int64_t> wanted(attr.begin(), attr.end());
  if (op.has("OutputShape")) {
    wanted = read_ints(op, "OutputShape");
    if (wanted.empty()) return {op.in("Theta").shape[0], Dim(), Dim(), 2};
  }
  if (wanted.size() != 4) {
    throw op.error(cat("the output's shape is [", join(wanted), "]"))
        .fix("give batch, channels, height and width");
  }
  return {op.in("Theta").shape[0], wanted[2], wanted[3], 2};
}

void affine_shape(OpView& op) {
  const ValueInfo& theta = op.in("Theta");
  require_floating(op, "Theta");
  if (theta.shape.rank() != 3 || !theta.shape[1].may_equal(2) || !theta.shape[2].may_equal(3)) {
    throw op.error(cat("Theta has shape ", theta.shape)).fix("give [batch, 2, 3]");
  }
  op.set_out("Output", theta.dtype, grid_shape(op));
}

// From -1 to 1 in even steps.
template <class T>
T along_side(int64_t at, int64_t extent) {
  return extent < 2 ? T{-1} : T{-1} + static_cast<T>(at) * (T{2} / static_cast<T>(extent - 1));
}

template <class T, bool kBack>
BoundKernel affine(const KernelSite& site) {
  const Shape grid = kBack ? site.in("Output@GRAD").shape : site.out("Output").shape;
  const int64_t high = grid.at(1), wide = grid.at(2), batch = grid.at(0);
  const int from_at = site.position(kBack ? "Output@GRAD" : "Theta");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(batch);
        for (int64_t n = begin; n < end; ++n) {
          const T* from = k.in<T>(from_at) + n * (kBack ? high * wide * 2 : 6);
          T* to = k.out<T>(0) + n * (kBack ? 6 : high * wide * 2);
          if (kBack) std::fill_n(to, 6, T{0});
          for (int64_t at = 0; at < high * wide; ++at) {
            const T place[] = {along_side<T>(at % wide, wide), along_side<T>(at / wide, high),
                               T{1}};
            for (int64_t row = 0; row < 2; ++row) {
              if constexpr (kBack) {
                for (int i = 0; i < 3; ++i) to[row * 3 + i] += from[at * 2 + row] * place[i];
              } else {
                const T* own = from + row * 3;
                to[at * 2 + row] = own[0] * place[0] + own[1] * place[1] + own[2];
              }
            }
          }
        }
      },
      static_cast<int>(std::clamp<int64_t>(batch, 1, parts_for(grid.count() * 3))));
}

// ---- grid_sampler

void sampler_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &grid = op.in("Grid");
  require_floating(op, "X");
  if (x.shape.rank() != 4 || grid.shape.rank() != 4 || !grid.shape[3].may_equal(2) ||
      !grid.shape[0].may_equal(x.shape[0])) {
    throw op.error(cat("X has shape ", x.shape, " and Grid ", grid.shape))
        .fix("give [batch, channels, height, width] and [batch, new height, new width, 2]");
  }
  op.set_out("Output", x.dtype, {x.shape[0], x.shape[1], grid.shape[1], grid.shape[2]});
}

struct GridSampler {
  int64_t batch, channels, high, wide, places;
  GridSampler(const Shape& x, const Shape& grid)
      : batch(x.at(0)),
        channels(x.at(1)),
        high(x.at(2)),
        wide(x.at(3)),
        places(grid.at(1) * grid.at(2)) {}
  // The corners of the image are -1 and 1.
  template <class T>
  BetweenPixels<T> place(const T* grid, int64_t at) const {
    const T x = (grid[2 * at] + 1) / 2 * static_cast<T>(wide - 1);
    const T y = (grid[2 * at + 1] + 1) / 2 * static_cast<T>(high - 1);
    return {y, x, high, wide};
  }
};

template <class T>
BoundKernel grid_sampler(const KernelSite& site) {
  const GridSampler s(site.in("X").shape, site.in("Grid").shape);
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(s.batch * s.places);
        const int64_t pixels = s.high * s.wide;
        for (int64_t at = begin; at < end; ++at) {
          const BetweenPixels<T> place = s.place(k.in<T>(1), at);
          const int64_t n = at / s.places;
          const T* image = k.in<T>(0) + n * s.channels * pixels;
          T* to = k.out<T>(0) + n * s.channels * s.places + at % s.places;
          for (int64_t c = 0; c < s.channels; ++c) {
            to[c * s.places] = place.value(image + c * pixels);
          }
        }
      },
      parts_for(s.batch * s.places * s.channels * 4));
}

// Planes of X by channel, then places of the grid: no two parts write the same.
template <class T>
BoundKernel grid_sampler_grad(const KernelSite& site) {
  const GridSampler s(site.in("X").shape, site.in("Grid").shape);
  const int x_at = site.position("X"), grid_at = site.position("Grid");
  const int grad_at = site.position("Output@GRAD");
  const int x_grad = site.out_position("X@GRAD"), grid_grad = site.out_position("Grid@GRAD");
  const int64_t planes = s.batch * s.channels, pixels = s.high * s.wide;
  const int parts = parts_for(planes * s.places * 4);
  BoundKernel made(
      [=](const KernelArgs& k) {
        if (!k.has_out(x_grad)) return;
        const auto [begin, end] = k.range(planes);
        T* to = k.out<T>(x_grad);
        std::fill(to + begin * pixels, to + end * pixels, T{0});
        for (int64_t plane = begin; plane < end; ++plane) {
          const int64_t first = plane / s.channels * s.places;
          for (int64_t at = 0; at < s.places; ++at) {
            s.place(k.in<T>(grid_at), first + at)
                .add(to + plane * pixels, k.in<T>(grad_at)[plane * s.places + at]);
          }
        }
      },
      static_cast<int>(std::clamp<int64_t>(planes, 1, parts)));
  made.add(
      [=](const KernelArgs& k) {
        if (!k.has_out(grid_grad)) return;
        const auto [begin, end] = k.range(s.batch * s.places);
        for (int64_t at = begin; at < end; ++at) {
          const BetweenPixels<T> place = s.place(k.in<T>(grid_at), at);
          T right = 0, down = 0;
          for (int64_t c = 0; c < s.channels; ++c) {
            const int64_t plane = at / s.places * s.channels + c;
            const T* image = k.in<T>(x_at) + plane * pixels;
            const T grad = k.in<T>(grad_at)[plane * s.places + at % s.places];
            right += grad * place.slope_right(image);
            down += grad * place.slope_down(image);
          }
          T* to = k.out<T>(grid_grad) + 2 * at;
          to[0] = right * static_cast<T>(s.wide - 1) / 2;
          to[1] = down * static_cast<T>(s.high - 1) / 2;
        }
      },
      parts);
  return made;
}

}  // namespace

void register_grid(Registry& ops) {
  ops.op("affine_grid")
      .doc("Where an affine map sends the places of an image, whose corners are -1 and 1")
      .in("Theta", "[batch, 2, 3]: the maps")
      .in_optional("OutputShape", "int32 [4]; used instead of the attribute")
      .out("Output", "[batch, height, width, 2]: x and y")
      .attr("output_shape", std::vector<int32_t>{}, "batch, channels, height and width")
      .shape(affine_shape)
      .traits({.reads_values = {"OutputShape"}})
      .kernel(typed_by<float, double>(
          "Theta", []<class T>(const KernelSite& site) { return affine<T, false>(site); }))
      .grad({"Theta", "OutputShape"})
      .no_grad({"OutputShape"})
      .grad_kernel(typed_by<float, double>(
          "Theta", []<class T>(const KernelSite& site) { return affine<T, true>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"Theta", {d.uniform({2, 2, 3})}}},
                        .attrs = {{"output_shape", std::vector<int32_t>{2, 1, 3, 4}}}};
      });
  ops.op("grid_sampler")
      .doc("An image seen through a grid of places, each a mean of the four pixels around it")
      .in("X", "[batch, channels, height, width]")
      .in("Grid", "[batch, new height, new width, 2]: x and y, corners of X are -1 and 1")
      .out("Output", "[batch, channels, new height, new width]; outside of X there is 0")
      .shape(sampler_shape)
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return grid_sampler<T>(site); }))
      .grad({"X", "Grid"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return grid_sampler_grad<T>(site); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 2, 4, 5})}},
                                   {"Grid", {d.uniform({2, 3, 4, 2}, -1.3, 1.3)}}}};
      });
}

}  // namespace trireme
