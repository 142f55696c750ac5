// deformable_psroi_pooling: regions of images in bins that are moved by offsets, each the mean of
// samples between pixels.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/scratch.h"
#include "ops/vision/between_pixels.h"
#include "ops/vision/regions.h"

namespace trireme {
namespace {

using BinInts = std::vector<int32_t>;

struct MovedBins {
  int64_t planes, high, wide, channels, bins_y, bins_x, samples, classes = 1;
  BinInts groups, parts;
  float scale, reach;
  bool moved;
  RegionImages images;

  explicit MovedBins(const KernelSite& site)
      : planes(site.in("Input").shape.at(1)),
        high(site.in("Input").shape.at(2)),
        wide(site.in("Input").shape.at(3)),
        channels(site.attr<int32_t>("output_dim")),
        bins_y(site.attr<int32_t>("pooled_height")),
        bins_x(site.attr<int32_t>("pooled_width")),
        samples(site.attr<int32_t>("sample_per_part")),
        groups(site.attr<BinInts>("group_size")),
        parts(site.attr<BinInts>("part_size")),
        scale(site.attr<float>("spatial_scale")),
        reach(site.attr<float>("trans_std")),
        moved(!site.attr<bool>("no_trans")),
        images(site, "Input", "ROIs") {
    if (moved) classes = site.in("Trans").shape.at(1) / 2;
  }
  int64_t bins() const { return bins_y * bins_x; }
  int64_t pixels() const { return high * wide; }
  // The plane of an output channel's bin.
  int64_t plane(int64_t channel, int64_t bin) const {
    const int64_t y = bin / bins_x * groups[0] / bins_y, x = bin % bins_x * groups[1] / bins_x;
    return (channel * groups[0] + y) * groups[1] + x;
  }
  // The offset to the right of a bin; the one downwards is `parts` planes behind.
  int64_t offset(int64_t region, int64_t channel, int64_t bin) const {
    const int64_t class_of = channel / std::max<int64_t>(channels / classes, 1);
    const int64_t y = bin / bins_x * parts[0] / bins_y, x = bin % bins_x * parts[1] / bins_x;
    return (((region * classes + class_of) * 2) * parts[0] + y) * parts[1] + x;
  }
  int64_t offset_step() const { return static_cast<int64_t>(parts[0]) * parts[1]; }
};

// A region's place in the image, its bins and samples.
template <class T>
struct MovedRegion {
  T left, top, wide, high;
  MovedRegion(const MovedBins& s, const T* box) {
    const auto by = static_cast<T>(s.scale);
    left = std::round(box[0]) * by - T(0.5);
    top = std::round(box[1]) * by - T(0.5);
    wide = std::max((std::round(box[2]) + 1) * by - T(0.5) - left, T(0.1));
    high = std::max((std::round(box[3]) + 1) * by - T(0.5) - top, T(0.1));
  }
  // Calls visit(y, x) for every sample of a bin that lies in the image. `move`: null, or the bin's
  // offset to the right, the one downwards `step` behind.
  template <class Visit>
  int64_t each(const MovedBins& s, int64_t bin, const T* move, const Visit& visit) const {
    const T bin_y = high / static_cast<T>(s.bins_y), bin_x = wide / static_cast<T>(s.bins_x);
    const auto reach = static_cast<T>(s.reach);
    T x0 = static_cast<T>(bin % s.bins_x) * bin_x + left;
    T y0 = static_cast<T>(bin / s.bins_x) * bin_y + top;
    if (move) x0 += move[0] * reach * wide, y0 += move[s.offset_step()] * reach * high;
    int64_t count = 0;
    for (int64_t at = 0; at < s.samples * s.samples; ++at) {
      const T x = x0 + static_cast<T>(at % s.samples) * bin_x / static_cast<T>(s.samples);
      const T y = y0 + static_cast<T>(at / s.samples) * bin_y / static_cast<T>(s.samples);
      const T right = static_cast<T>(s.wide), down = static_cast<T>(s.high);
      if (x < T(-0.5) || x > right - T(0.5) || y < T(-0.5) || y > down - T(0.5)) continue;
      visit(y, x);
      ++count;
    }
    return count;
  }
};

// A sample near the border is taken from the border.
template <class T>
BetweenPixels<T> nearest_inside(const MovedBins& s, T y, T x) {
  return {std::clamp(y, T{0}, static_cast<T>(s.high - 1)),
          std::clamp(x, T{0}, static_cast<T>(s.wide - 1)), s.high, s.wide};
}

template <class T>
const T* moved_by(const MovedBins& s, const KernelArgs& k, int trans_at, int64_t region, int64_t c,
                  int64_t bin) {
  return s.moved ? k.in<T>(trans_at) + s.offset(region, c, bin) : nullptr;
}

int64_t* images_of_part(const MovedBins& s, const KernelArgs& k) {
  auto* images = reinterpret_cast<int64_t*>(k.scratch) + k.part * s.images.regions();
  s.images.find(k, images);
  return images;
}
size_t images_bytes(const MovedBins& s, int parts) {
  return static_cast<size_t>(s.images.regions() * parts) * sizeof(int64_t);
}

template <class T>
BoundKernel moved_bins(const KernelSite& site) {
  const MovedBins s(site);
  const int x_at = site.position("Input"), rois_at = site.position("ROIs");
  const int trans_at = site.position("Trans");
  const int out_at = site.out_position("Output"), count_at = site.out_position("TopCount");
  const int64_t regions = s.images.regions(), cells = regions * s.channels * s.bins();
  BoundKernel made(
      [=](const KernelArgs& k) {
        const int64_t* images = images_of_part(s, k);
        const auto [begin, end] = k.range(cells);
        for (int64_t at = begin; at < end; ++at) {
          const int64_t bin = at % s.bins(), c = at / s.bins() % s.channels;
          const int64_t r = at / s.bins() / s.channels;
          const T* plane = k.in<T>(x_at) + (images[r] * s.planes + s.plane(c, bin)) * s.pixels();
          T sum = 0;
          const int64_t count =
              MovedRegion<T>(s, k.in<T>(rois_at) + 4 * r)
                  .each(s, bin, moved_by<T>(s, k, trans_at, r, c, bin),
                        [&](T y, T x) { sum += nearest_inside(s, y, x).value(plane); });
          if (k.has_out(out_at)) {
            k.out<T>(out_at)[at] = count == 0 ? T{0} : sum / static_cast<T>(count);
          }
          if (k.has_out(count_at)) k.out<T>(count_at)[at] = static_cast<T>(count);
        }
      },
      parts_for(cells * s.samples * s.samples * 8));
  made.scratch = images_bytes(s, made.parts);
  return made;
}

// Parts take channels: all regions add to the planes of each.
template <class T>
KernelFn moved_to_image(const MovedBins& s, const KernelSite& site) {
  const int rois_at = site.position("ROIs"), trans_at = site.position("Trans");
  const int grad_at = site.position("Output@GRAD"), to_at = site.out_position("Input@GRAD");
  const int64_t batch = site.in("Input").shape.at(0);
  return [=](const KernelArgs& k) {
    if (!k.has_out(to_at)) return;
    const int64_t* images = images_of_part(s, k);
    const auto [begin, end] = k.range(s.channels);
    const int64_t own = s.planes / s.channels * s.pixels();
    for (int64_t n = 0; n < batch; ++n) {
      T* image = k.out<T>(to_at) + n * s.planes * s.pixels();
      std::fill(image + begin * own, image + end * own, T{0});
    }
    for (int64_t r = 0; r < s.images.regions(); ++r) {
      const MovedRegion<T> region(s, k.in<T>(rois_at) + 4 * r);
      for (int64_t cell = begin * s.bins(); cell < end * s.bins(); ++cell) {
        const int64_t bin = cell % s.bins(), c = cell / s.bins();
        const T* move = moved_by<T>(s, k, trans_at, r, c, bin);
        const int64_t count = region.each(s, bin, move, [](T, T) {});
        if (count == 0) continue;
        const T grad = k.in<T>(grad_at)[r * s.channels * s.bins() + cell] / static_cast<T>(count);
        T* plane = k.out<T>(to_at) + (images[r] * s.planes + s.plane(c, bin)) * s.pixels();
        region.each(s, bin, move, [&](T y, T x) { nearest_inside(s, y, x).add(plane, grad); });
      }
    }
  };
}

// Parts take regions.
template <class T>
KernelFn moved_to_offsets(const MovedBins& s, const KernelSite& site) {
  const int x_at = site.position("Input"), rois_at = site.position("ROIs");
  const int trans_at = site.position("Trans"), grad_at = site.position("Output@GRAD");
  const int to_at = site.out_position("Trans@GRAD");
  const int64_t width =
      site.in("Trans").shape.count() / std::max<int64_t>(site.in("Trans").shape.at(0), 1);
  return [=](const KernelArgs& k) {
    if (!k.has_out(to_at)) return;
    const int64_t* images = images_of_part(s, k);
    const auto [begin, end] = k.range(s.images.regions());
    T* to = k.out<T>(to_at);
    std::fill(to + begin * width, to + end * width, T{0});
    for (int64_t r = begin; s.moved && r < end; ++r) {
      const MovedRegion<T> region(s, k.in<T>(rois_at) + 4 * r);
      for (int64_t cell = 0; cell < s.channels * s.bins(); ++cell) {
        const int64_t bin = cell % s.bins(), c = cell / s.bins();
        const T* plane = k.in<T>(x_at) + (images[r] * s.planes + s.plane(c, bin)) * s.pixels();
        T right = 0, down = 0;
        const int64_t count =
            region.each(s, bin, moved_by<T>(s, k, trans_at, r, c, bin), [&](T y, T x) {
              const BetweenPixels<T> at = nearest_inside(s, y, x);
              if (x > 0 && x < static_cast<T>(s.wide - 1)) right += at.slope_right(plane);
              if (y > 0 && y < static_cast<T>(s.high - 1)) down += at.slope_down(plane);
            });
        if (count == 0) continue;
        const T grad = k.in<T>(grad_at)[r * s.channels * s.bins() + cell] *
                       static_cast<T>(s.reach) / static_cast<T>(count);
        T* own = to + s.offset(r, c, bin);
        own[0] += grad * right * region.wide;
        own[s.offset_step()] += grad * down * region.high;
      }
    }
  };
}

template <class T>
BoundKernel moved_bins_grad(const KernelSite& site) {
  const MovedBins s(site);
  const int64_t regions = s.images.regions();
  const int parts = parts_for(regions * s.channels * s.bins() * s.samples * s.samples * 8);
  const auto at_most = [&](int64_t n) {
    return static_cast<int>(std::clamp<int64_t>(n, 1, parts));
  };
  BoundKernel made(moved_to_image<T>(s, site), at_most(s.channels));
  made.add(moved_to_offsets<T>(s, site), at_most(regions));
  made.scratch = images_bytes(s, parts);
  return made;
}

void moved_bins_shape(OpView& op) {
  require_regions(op, "Input", "ROIs", 4);
  const ValueInfo &x = op.in("Input"), &trans = op.in("Trans");
  const Dim regions = op.in("ROIs").shape[0];
  const int64_t channels = op.attr<int32_t>("output_dim");
  const auto groups = op.attr<BinInts>("group_size"), parts = op.attr<BinInts>("part_size");
  if (groups.size() != 2 || parts.size() != 2 ||
      std::min({groups[0], groups[1], parts[0], parts[1]}) < 1) {
    throw op.error(cat("group_size is [", join(groups), "] and part_size [", join(parts), "]"))
        .fix("give two numbers from 1 up to each");
  }
  if (!x.shape[1].may_equal(channels * groups[0] * groups[1])) {
    throw op
        .error(cat("Input has ", x.shape[1], " channels but output_dim is ", channels,
                   " with group_size [", join(groups), "]"))
        .fix(cat("give Input ", channels * groups[0] * groups[1], " channels"));
  }
  if (!op.attr<bool>("no_trans")) {
    const Shape& t = trans.shape;
    if (t.rank() != 4 || !t[0].may_equal(regions) || !t[2].may_equal(parts[0]) ||
        !t[3].may_equal(parts[1]) ||
        (t[1].known() && (t.at(1) < 2 || t.at(1) % 2 != 0 || channels % (t.at(1) / 2) != 0))) {
      throw op.error(cat("Trans has shape ", t))
          .fix("give [regions, 2 * classes, part_size], of as many classes as divide output_dim");
    }
  }
  const Shape out = {regions, channels, op.attr<int32_t>("pooled_height"),
                     op.attr<int32_t>("pooled_width")};
  op.set_out("Output", x.dtype, out);
  op.set_out("TopCount", x.dtype, out);
}

SampleRule moved_bins_sample(bool still, int32_t group) {
  return [=](Draw& d) {
    Tensor rois = make_tensor<double>({3, 4}, {1, 1, 4, 5, 2, 1, 5, 3, 1, 2, 4, 4});
    rois.set_lod({{0, 1, 3}});
    return OpSample{.inputs = {{"Input", {d.uniform({2, 2 * group * group, 7, 7})}},
                               {"ROIs", {rois}},
                               {"Trans", {d.uniform({3, 2, 2, 2}, -0.4, 0.4)}}},
                    .attrs = {{"no_trans", still},
                              {"output_dim", int32_t{2}},
                              {"group_size", BinInts{group, group}},
                              {"pooled_height", int32_t{2}},
                              {"pooled_width", int32_t{2}},
                              {"part_size", BinInts{2, 2}},
                              {"sample_per_part", int32_t{2}}}};
  };
}

}  // namespace

void register_deformable_roi(Registry& ops) {
  ops.op("deformable_psroi_pooling")
      .doc("Regions of images in bins moved by offsets, each the mean of samples between pixels")
      .in("Input", "[images, channels, height, width]")
      .in("ROIs", "[regions, 4]: corners; a sequence for each image")
      .in("Trans",
          "[regions, 2 * classes, part_size]: to the right, then down, in sizes of regions")
      .out("TopCount", "like Output: how many samples lie in the image")
      .out("Output", "[regions, output_dim, pooled_height, pooled_width]")
      .attr("no_trans", false, "do not move bins")
      .attr("spatial_scale", 1.0f, "what corners are multiplied by")
      .required_attr<int32_t>("output_dim", "channels of Output")
      .at_least(1)
      .attr("group_size", BinInts{1, 1}, "bins with channels of their own, down and across")
      .attr("pooled_height", 1, "bins of a region")
      .at_least(1)
      .attr("pooled_width", 1, "bins of a region")
      .at_least(1)
      .attr("part_size", BinInts{1, 1}, "offsets of a region, down and across")
      .attr("sample_per_part", 1, "samples of a bin along an axis")
      .at_least(1)
      .attr("trans_std", 0.1f, "what offsets are multiplied by")
      .shape(moved_bins_shape)
      .kernel(typed_by<float, double>(
          "Input", []<class T>(const KernelSite& site) { return moved_bins<T>(site); }))
      .grad({"Input", "ROIs", "Trans", "TopCount"})
      .no_grad({"ROIs"})
      .grad_outs({"Output"})
      .grad_kernel(typed_by<float, double>(
          "Input", []<class T>(const KernelSite& site) { return moved_bins_grad<T>(site); }))
      .sample(moved_bins_sample(false, 1))
      .sample(moved_bins_sample(false, 2))
      .sample(moved_bins_sample(true, 1));
}

}  // namespace trireme
