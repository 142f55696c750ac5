// Pools channels that stand side by side, last or in blocks, as vectors.
#include "cpu/kernels/pool_lanes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/lanes.h"

namespace trireme {
namespace {

// Channels of one image that are pooled together.
struct PoolGroup {
  int64_t block, channel, lanes;
  PoolGroup(const LaneGroups& groups, int64_t index)
      : block(index / groups.per_block),
        channel(groups.lanes(index % groups.per_block).first),
        lanes(groups.lanes(index % groups.per_block).count) {}
  int64_t first(const LaneGroups& groups, int64_t pixels) const {
    return block * groups.step * pixels + channel;
  }
};

int64_t group_count(const Pool& pool, const LaneGroups& groups) {
  return pool.planes() / groups.step * groups.per_block;
}

int pool_parts(const Pool& pool) {
  return static_cast<int>(
      std::min<int64_t>(pool.parts(), group_count(pool, LaneGroups(pool.step()))));
}

// Lanes as one vector of the compiler's. Never handed from function to function: how, depends on
// the machine.
template <int64_t N>
struct Vector {
  using Floats [[gnu::vector_size(N * sizeof(float))]] = float;
  using Bits [[gnu::vector_size(N * sizeof(float))]] = int32_t;
};

// Whether every pixel lies under exactly one window.
bool cuts_image(const Pool& pool) {
  return !pool.adaptive &&
         std::all_of(pool.window.begin(), pool.window.end(), [](const WindowAxis& axis) {
           return axis.size == axis.stride && axis.pad_begin == 0 &&
                  axis.out * axis.size == axis.in;
         });
}

}  // namespace

BoundKernel pool_lanes(const Pool& pool, bool max) {
  return BoundKernel(
      [pool, max, groups = LaneGroups(pool.step())](const KernelArgs& k) {
        const auto [begin, end] = k.range(group_count(pool, groups));
        for (int64_t index = begin; index < end; ++index) {
          const PoolGroup group(groups, index);
          const float* x = k.in<float>(0) + group.first(groups, in_pixels(pool.window));
          float* out = k.out<float>(0) + group.first(groups, out_pixels(pool.window));
          with_lanes(group.lanes, [&, step = groups.step](auto lanes) {
            each_window(pool, [&](int64_t at, const WindowSpan& d, const WindowSpan& h,
                                  const WindowSpan& w) {
              float result[kLanes];
              std::fill(result, result + kLanes, max ? std::numeric_limits<float>::lowest() : 0.0f);
              if (max) {
                each_pixel(pool, d, h, w, [&](int64_t pixel) {
                  const float* from = x + pixel * step;
                  for (int64_t l = 0; l < lanes; ++l) {
                    result[l] = larger(from[l], result[l]) ? from[l] : result[l];
                  }
                });
              } else {
                each_pixel(pool, d, h, w, [&](int64_t pixel) {
                  const float* from = x + pixel * step;
                  for (int64_t l = 0; l < lanes; ++l) result[l] += from[l];
                });
                const float share = weight<float>(pool, d, h, w);
                for (int64_t l = 0; l < lanes; ++l) result[l] *= share;
              }
              for (int64_t l = 0; l < lanes; ++l) out[at * step + l] = result[l];
            });
          });
        }
      },
      pool_parts(pool));
}

BoundKernel pool_lanes_grad(const KernelSite& site, const Pool& pool, bool max) {
  const int x_at = site.position("X"), out_at = site.position("Out"),
            grad_at = site.position("Out@GRAD"), x_grad_at = site.out_position("X@GRAD");
  return BoundKernel(
      [=, cuts = cuts_image(pool), groups = LaneGroups(pool.step())](const KernelArgs& k) {
        const auto [begin, end] = k.range(group_count(pool, groups));
        for (int64_t index = begin; index < end; ++index) {
          const PoolGroup group(groups, index);
          const int64_t first = group.first(groups, in_pixels(pool.window)),
                        out_first = group.first(groups, out_pixels(pool.window));
          const float* x = k.in<float>(x_at) + first;
          float* x_grad = k.out<float>(x_grad_at) + first;
          const float* out = k.in<float>(out_at) + out_first;
          const float* grad = k.in<float>(grad_at) + out_first;
          with_lanes(group.lanes, [&, step = groups.step](auto lanes) {
            for (int64_t i = 0; !cuts && i < in_pixels(pool.window); ++i) {
              for (int64_t l = 0; l < lanes; ++l) x_grad[i * step + l] = 0;
            }
            using Floats = typename Vector<decltype(lanes)::value>::Floats;
            using Bits = typename Vector<decltype(lanes)::value>::Bits;
            each_window(pool, [&](int64_t at, const WindowSpan& d, const WindowSpan& h,
                                  const WindowSpan& w) {
              Floats share, top;
              std::memcpy(&share, grad + at * step, sizeof share);
              std::memcpy(&top, out + at * step, sizeof top);
              if (!max) share *= weight<float>(pool, d, h, w);
              each_pixel(pool, d, h, w, [&](int64_t pixel) {
                Floats given = share, before{};
                if (max) {  // the first pixel that has the maximum gets all
                  Floats from;
                  std::memcpy(&from, x + pixel * step, sizeof from);
                  const Bits gets = from == top;
                  given = reinterpret_cast<Floats>(reinterpret_cast<Bits>(share) & gets);
                  share = reinterpret_cast<Floats>(reinterpret_cast<Bits>(share) & ~gets);
                }
                float* to = x_grad + pixel * step;
                if (!cuts) std::memcpy(&before, to, sizeof before);
                given += before;
                std::memcpy(to, &given, sizeof given);
              });
            });
          });
        }
      },
      pool_parts(pool));
}

}  // namespace trireme
