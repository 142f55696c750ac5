// roi_pool: regions of images in bins, each the largest of its pixels.
#include <cmath>
#include <limits>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/scratch.h"
#include "ops/vision/regions.h"

namespace trireme {
namespace {

struct RoiPool {
  int64_t channels, high, wide, bins_y, bins_x;
  float scale;
  RegionImages images;

  explicit RoiPool(const KernelSite& site)
      : channels(site.in("X").shape.at(1)),
        high(site.in("X").shape.at(2)),
        wide(site.in("X").shape.at(3)),
        bins_y(site.attr<int32_t>("pooled_height")),
        bins_x(site.attr<int32_t>("pooled_width")),
        scale(site.attr<float>("spatial_scale")),
        images(site, "X", "ROIs", "RoisLod") {}
  int64_t bins() const { return bins_y * bins_x; }
};

// The pixels of one bin along an axis.
struct PoolSpan {
  int64_t begin, end;
  template <class T>
  PoolSpan(T from, T to, T scale, int64_t bin, int64_t bins, int64_t extent) {
    const auto first = static_cast<int64_t>(std::round(from * scale));
    const auto last = static_cast<int64_t>(std::round(to * scale));
    const T size = static_cast<T>(std::max<int64_t>(last - first + 1, 1)) / static_cast<T>(bins);
    const auto inside = [&](T at) {
      return std::clamp<int64_t>(static_cast<int64_t>(at) + first, 0, extent);
    };
    begin = inside(std::floor(static_cast<T>(bin) * size));
    end = inside(std::ceil(static_cast<T>(bin + 1) * size));
  }
};

template <class T>
BoundKernel roi_pool(const KernelSite& site) {
  const RoiPool s(site);
  const int x_at = site.position("X"), rois_at = site.position("ROIs");
  const int out_at = site.out_position("Out"), which_at = site.out_position("Argmax");
  const int64_t regions = s.images.regions();
  Scratch counting;
  counting.take<int64_t>(regions);
  BoundKernel made(
      [=](const KernelArgs& k) {
        auto* images =
            reinterpret_cast<int64_t*>(k.scratch + counting.bytes() * static_cast<size_t>(k.part));
        s.images.find(k, images);
        const auto [begin, end] = k.range(regions * s.channels);
        for (int64_t at = begin; at < end; ++at) {
          const T* box = k.in<T>(rois_at) + at / s.channels * 4;
          const T* plane =
              k.in<T>(x_at) +
              (images[at / s.channels] * s.channels + at % s.channels) * s.high * s.wide;
          for (int64_t bin = 0; bin < s.bins(); ++bin) {
            const auto scale = static_cast<T>(s.scale);
            const PoolSpan y(box[1], box[3], scale, bin / s.bins_x, s.bins_y, s.high);
            const PoolSpan x(box[0], box[2], scale, bin % s.bins_x, s.bins_x, s.wide);
            int64_t best = -1;
            for (int64_t i = y.begin; i < y.end; ++i) {
              for (int64_t pixel = i * s.wide + x.begin; pixel < i * s.wide + x.end; ++pixel) {
                if (best < 0 || plane[pixel] > plane[best]) best = pixel;
              }
            }
            const int64_t to = at * s.bins() + bin;
            if (k.has_out(out_at)) k.out<T>(out_at)[to] = best < 0 ? T{0} : plane[best];
            if (k.has_out(which_at)) k.out<int64_t>(which_at)[to] = best;
          }
        }
      },
      parts_for(regions * s.channels * s.bins() * 16));
  made.scratch = counting.bytes() * static_cast<size_t>(made.parts);
  return made;
}

// Every largest pixel gets its bin's gradient; parts take channels.
template <class T>
BoundKernel roi_pool_grad(const KernelSite& site) {
  const RoiPool s(site);
  const int which_at = site.position("Argmax"), grad_at = site.position("Out@GRAD");
  const int to_at = site.out_position("X@GRAD");
  const int64_t regions = s.images.regions(), batch = site.in("X").shape.at(0);
  Scratch counting;
  counting.take<int64_t>(regions);
  const int parts = parts_for(regions * s.channels * s.bins() + site.in("X").shape.count());
  BoundKernel made(
      [=](const KernelArgs& k) {
        auto* images =
            reinterpret_cast<int64_t*>(k.scratch + counting.bytes() * static_cast<size_t>(k.part));
        s.images.find(k, images);
        const auto [begin, end] = k.range(s.channels);
        const int64_t pixels = s.high * s.wide;
        T* to = k.out<T>(to_at);
        for (int64_t n = 0; n < batch; ++n) {
          std::fill(to + (n * s.channels + begin) * pixels, to + (n * s.channels + end) * pixels,
                    T{0});
        }
        for (int64_t r = 0; r < regions; ++r) {
          for (int64_t c = begin; c < end; ++c) {
            T* plane = to + (images[r] * s.channels + c) * pixels;
            for (int64_t bin = 0; bin < s.bins(); ++bin) {
              const int64_t at = (r * s.channels + c) * s.bins() + bin;
              const int64_t best = k.in<int64_t>(which_at)[at];
              if (best >= 0) plane[best] += k.in<T>(grad_at)[at];
            }
          }
        }
      },
      static_cast<int>(std::clamp<int64_t>(std::min<int64_t>(parts, s.channels), 1, 64)));
  made.scratch = counting.bytes() * static_cast<size_t>(made.parts);
  return made;
}

}  // namespace

void register_roi_pool(Registry& ops) {
  ops.op("roi_pool")
      .doc("Regions of images in bins, each the largest of its pixels")
      .in("X", "[images, channels, height, width]")
      .in("ROIs", "[regions, 4]: corners; a sequence for each image")
      .in_optional("RoisLod", "where the regions of images end, 0 first")
      .out("Out", "[regions, channels, pooled_height, pooled_width]")
      .out_intermediate("Argmax",
                        "int64: the largest pixel's place in its plane; -1: there is none")
      .attr("spatial_scale", 1.0f, "what corners are multiplied by")
      .attr("pooled_height", 1, "bins of a region")
      .at_least(1)
      .attr("pooled_width", 1, "bins of a region")
      .at_least(1)
      .shape([](OpView& op) {
        require_regions(op, "X", "ROIs", 4);
        const ValueInfo& x = op.in("X");
        const Shape out = {op.in("ROIs").shape[0], x.shape[1], op.attr<int32_t>("pooled_height"),
                           op.attr<int32_t>("pooled_width")};
        op.set_out("Out", x.dtype, out);
        op.set_out("Argmax", DType::int64, out);
      })
      .kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return roi_pool<T>(site); }))
      .grad({"X", "ROIs", "RoisLod", "Argmax"})
      .no_grad({"ROIs", "RoisLod"})
      .grad_outs({"Out"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return roi_pool_grad<T>(site); }))
      .sample([](Draw& d) {
        Tensor rois = make_tensor<double>({3, 4}, {0, 0, 3, 4, 1, 1, 6, 3, 2, 0, 2, 5});
        rois.set_lod({{0, 1, 3}});
        return OpSample{.inputs = {{"X", {d.distinct({2, 2, 5, 6})}}, {"ROIs", {rois}}},
                        .attrs = {{"spatial_scale", 0.8f},
                                  {"pooled_height", int32_t{2}},
                                  {"pooled_width", int32_t{2}}}};
      });
}

}  // namespace trireme
