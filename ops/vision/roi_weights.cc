// Regions of images as weighted sums of pixels: roi_align, psroi_pool, prroi_pool. Along either
// axis a bin of a region weighs a few pixels; a pixel's weight in the bin is the product of both.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/scratch.h"
#include "ops/vision/regions.h"

namespace trireme {
namespace {

// Pixels of one axis with their weights, for every bin of one region.
template <class T>
struct AxisWeights {
  int64_t bins, extent;
  int64_t *first, *count;  // of each bin: pixels first, first + 1, ...
  T* weight;               // [bins, extent]

  AxisWeights(Scratch& scratch, int64_t bins, int64_t extent)
      : bins(bins),
        extent(extent),
        first(scratch.take<int64_t>(bins)),
        count(scratch.take<int64_t>(bins)),
        weight(scratch.take<T>(bins * extent)) {}

  // Bin `bin` weighs pixels [begin, end), at first by nothing.
  T* open(int64_t bin, int64_t begin, int64_t end) const {
    first[bin] = begin;
    count[bin] = std::max<int64_t>(end - begin, 0);
    T* own = weight + bin * extent;
    std::fill_n(own, count[bin], T{0});
    return own;
  }
};

// ---- the three ways to weigh

// roi_align: the mean of samples, evenly spaced in the bin, each between two pixels.
template <class T>
void weigh_samples(const AxisWeights<T>& axis, T start, T end, int ratio) {
  const T bin = std::max(end - start, T{1}) / static_cast<T>(axis.bins);
  const auto samples = static_cast<int64_t>(ratio > 0 ? static_cast<T>(ratio) : std::ceil(bin));
  const T step = bin / static_cast<T>(samples), most = static_cast<T>(axis.extent - 1);
  for (int64_t i = 0; i < axis.bins; ++i) {
    const T from = start + static_cast<T>(i) * bin;
    const auto position = [&](int64_t s) { return from + (static_cast<T>(s) + T(0.5)) * step; };
    const auto pixel = [&](T at) { return static_cast<int64_t>(std::clamp(at, T{0}, most)); };
    const int64_t begin = pixel(position(0));
    T* own = axis.open(i, begin, std::min(pixel(position(samples - 1)) + 2, axis.extent));
    for (int64_t s = 0; s < samples; ++s) {
      T at = position(s);
      if (at < T{-1} || at > static_cast<T>(axis.extent)) continue;  // outside: nothing
      at = std::clamp(at, T{0}, most);
      const auto low = static_cast<int64_t>(at);
      const T share = at - static_cast<T>(low);
      own[low - begin] += (1 - share) / static_cast<T>(samples);
      if (share > 0) own[low + 1 - begin] += share / static_cast<T>(samples);
    }
  }
}

// psroi_pool: the mean of the pixels that the bin touches.
template <class T>
void weigh_touched(const AxisWeights<T>& axis, T start, T end) {
  const T bin = std::max(end - start, T(0.1)) / static_cast<T>(axis.bins);
  const auto inside = [&](T at) {
    return static_cast<int64_t>(std::clamp(at, T{0}, static_cast<T>(axis.extent)));
  };
  for (int64_t i = 0; i < axis.bins; ++i) {
    const int64_t begin = inside(std::floor(static_cast<T>(i) * bin + start));
    const int64_t stop = inside(std::ceil(static_cast<T>(i + 1) * bin + start));
    T* own = axis.open(i, begin, stop);
    std::fill_n(own, axis.count[i], T{1} / static_cast<T>(std::max<int64_t>(axis.count[i], 1)));
  }
}

// What lies below `at` of a triangle of area 1 that stands on [-1, 1], and its height there.
template <class T>
T triangle_below(T at) {
  if (at <= -1) return 0;
  if (at >= 1) return 1;
  return at < 0 ? (at + 1) * (at + 1) / 2 : 1 - (1 - at) * (1 - at) / 2;
}
template <class T>
T triangle_height(T at) {
  return std::max(T{1} - std::abs(at), T{0});
}

// prroi_pool: the integral over the bin of the pixels drawn out to a continuous image, divided by
// its length.
template <class T>
void weigh_integral(const AxisWeights<T>& axis, T start, T end) {
  const T bin = std::max(end - start, T{0}) / static_cast<T>(axis.bins);
  for (int64_t i = 0; i < axis.bins; ++i) {
    const T from = start + static_cast<T>(i) * bin, to = from + bin;
    const auto inside = [&](T at) {
      return static_cast<int64_t>(std::clamp(at, T{0}, static_cast<T>(axis.extent)));
    };
    const int64_t begin = inside(std::floor(from)), stop = inside(std::ceil(to) + 1);
    T* own = axis.open(i, begin, stop);
    for (int64_t p = 0; bin > 0 && p < axis.count[i]; ++p) {
      const auto pixel = static_cast<T>(begin + p);
      own[p] = (triangle_below(to - pixel) - triangle_below(from - pixel)) / bin;
    }
  }
}

// ---- the op

enum class Weighing { samples, touched, integral };

struct RegionSums {
  Weighing how;
  int64_t regions, channels, planes, high, wide, bins_y, bins_x;
  float scale;
  int ratio = 0;
  RegionImages images;

  RegionSums(const KernelSite& site, Weighing how)
      : how(how), images(site, "X", "ROIs", tensor(how), how == Weighing::integral) {
    const Shape& x = site.in("X").shape;
    planes = x.at(1), high = x.at(2), wide = x.at(3);
    bins_y = site.attr<int32_t>("pooled_height"), bins_x = site.attr<int32_t>("pooled_width");
    scale = site.attr<float>("spatial_scale");
    regions = images.regions();
    channels = how == Weighing::touched ? planes / (bins_y * bins_x) : planes;
    if (how == Weighing::samples) ratio = site.attr<int32_t>("sampling_ratio");
  }
  static std::string tensor(Weighing how) {
    return how == Weighing::samples ? "RoisLod" : how == Weighing::integral ? "BatchRoINums" : "";
  }
  int64_t plane(int64_t channel, int64_t bin) const {
    return how == Weighing::touched ? channel * bins_y * bins_x + bin : channel;
  }
  template <class T>
  void edges(const T* box, T* at) const {
    const auto by = static_cast<T>(scale);
    for (int i = 0; i < 4; ++i) {
      const T corner = how == Weighing::touched ? std::round(box[i]) + T(i / 2) : box[i];
      at[i] = corner * by;
    }
  }
  template <class T>
  void weigh(const AxisWeights<T>& axis, T start, T end) const {
    switch (how) {
      case Weighing::samples:
        return weigh_samples(axis, start, end, ratio);
      case Weighing::touched:
        return weigh_touched(axis, start, end);
      case Weighing::integral:
        return weigh_integral(axis, start, end);
    }
  }
};

// The arrays of one part: which image each region is of, and both axes' weights.
template <class T>
struct RegionScratch {
  int64_t* images;
  AxisWeights<T> y, x;
  RegionScratch(const RegionSums& s, Scratch scratch)
      : images(scratch.take<int64_t>(s.regions)),
        y(scratch, s.bins_y, s.high),
        x(scratch, s.bins_x, s.wide) {}
  static size_t bytes(const RegionSums& s) {
    Scratch counting;
    counting.take<int64_t>(s.regions);
    AxisWeights<T>(counting, s.bins_y, s.high), AxisWeights<T>(counting, s.bins_x, s.wide);
    return counting.bytes();
  }
  // Of this part.
  static RegionScratch of(const RegionSums& s, const KernelArgs& k) {
    RegionScratch own(s, Scratch(k.scratch + bytes(s) * static_cast<size_t>(k.part)));
    s.images.find(k, own.images);
    return own;
  }
  void weigh(const RegionSums& s, const T* box) const {
    T at[4];
    s.edges(box, at);
    s.weigh(y, at[1], at[3]);
    s.weigh(x, at[0], at[2]);
  }
};

int region_parts(const RegionSums& s, int64_t most) {
  const int64_t reads = s.regions * s.channels * s.bins_y * s.bins_x * 4;
  return static_cast<int>(std::clamp<int64_t>(std::min<int64_t>(parts_for(reads), most), 1, 64));
}

template <class T>
BoundKernel region_forward(const KernelSite& site, Weighing how) {
  const RegionSums s(site, how);
  const int x_at = site.position("X"), rois_at = site.position("ROIs");
  BoundKernel made(
      [=](const KernelArgs& k) {
        const auto own = RegionScratch<T>::of(s, k);
        const auto [begin, end] = k.range(s.regions);
        const int64_t bins = s.bins_y * s.bins_x;
        for (int64_t r = begin; r < end; ++r) {
          own.weigh(s, k.in<T>(rois_at) + 4 * r);
          const T* image = k.in<T>(x_at) + own.images[r] * s.planes * s.high * s.wide;
          for (int64_t at = 0; at < s.channels * bins; ++at) {
            const int64_t bin = at % bins, i = bin / s.bins_x, j = bin % s.bins_x;
            const T* plane = image + s.plane(at / bins, bin) * s.high * s.wide;
            const T *wy = own.y.weight + i * s.high, *wx = own.x.weight + j * s.wide;
            T sum = 0;
            for (int64_t y = 0; y < own.y.count[i]; ++y) {
              if (wy[y] == 0) continue;
              const T* row = plane + (own.y.first[i] + y) * s.wide + own.x.first[j];
              T across = 0;
              for (int64_t x = 0; x < own.x.count[j]; ++x) across += wx[x] * row[x];
              sum += wy[y] * across;
            }
            k.out<T>(0)[r * s.channels * bins + at] = sum;
          }
        }
      },
      region_parts(s, s.regions));
  made.scratch = RegionScratch<T>::bytes(s) * static_cast<size_t>(made.parts);
  return made;
}

// Parts take channels: all regions add to the planes of each.
template <class T>
KernelFn give_to_image(const RegionSums& s, int rois_at, int grad_at, int to_at) {
  return [=](const KernelArgs& k) {
    if (!k.has_out(to_at)) return;
    const auto own = RegionScratch<T>::of(s, k);
    const auto [begin, end] = k.range(s.channels);
    const int64_t bins = s.bins_y * s.bins_x, pixels = s.high * s.wide;
    const int64_t group = s.planes / std::max<int64_t>(s.channels, 1) * pixels;
    T* to = k.out<T>(to_at);
    const int64_t images = k.out(to_at).shape().at(0);
    for (int64_t n = 0; n < images; ++n) {
      T* image = to + n * s.planes * pixels;
      std::fill(image + begin * group, image + end * group, T{0});
    }
    for (int64_t r = 0; r < s.regions; ++r) {
      own.weigh(s, k.in<T>(rois_at) + 4 * r);
      T* image = to + own.images[r] * s.planes * pixels;
      for (int64_t at = begin * bins; at < end * bins; ++at) {
        const int64_t bin = at % bins, i = bin / s.bins_x, j = bin % s.bins_x;
        const T grad = k.in<T>(grad_at)[r * s.channels * bins + at];
        T* plane = image + s.plane(at / bins, bin) * pixels;
        const T *wy = own.y.weight + i * s.high, *wx = own.x.weight + j * s.wide;
        for (int64_t y = 0; y < own.y.count[i]; ++y) {
          if (wy[y] == 0) continue;
          T* row = plane + (own.y.first[i] + y) * s.wide + own.x.first[j];
          for (int64_t x = 0; x < own.x.count[j]; ++x) row[x] += grad * wy[y] * wx[x];
        }
      }
    }
  };
}

// d(mean over [from, to]) is (value at to - mean) / length for `to`, (mean - value at from) /
// length for `from`; with the other axis kept as it is.
template <class T>
struct EdgeSlopes {
  T from = 0, to = 0;
};

template <class T>
EdgeSlopes<T> edge_slopes(const T* plane, int64_t step, int64_t first, int64_t count, T from, T to,
                          const T* weight, const auto& across) {
  const T length = to - from;
  EdgeSlopes<T> slopes;
  if (length <= 0) return slopes;
  for (int64_t p = 0; p < count; ++p) {
    const T value = across(plane + (first + p) * step);
    const auto pixel = static_cast<T>(first + p);
    slopes.to += value * (triangle_height(to - pixel) - weight[p]) / length;
    slopes.from += value * (weight[p] - triangle_height(from - pixel)) / length;
  }
  return slopes;
}

// prroi_pool: corners of regions move the edges of all bins, each by its share.
template <class T>
KernelFn give_to_regions(const RegionSums& s, int x_at, int rois_at, int grad_at, int to_at) {
  return [=](const KernelArgs& k) {
    if (!k.has_out(to_at)) return;
    const auto own = RegionScratch<T>::of(s, k);
    const auto [begin, end] = k.range(s.regions);
    const int64_t bins = s.bins_y * s.bins_x, pixels = s.high * s.wide;
    for (int64_t r = begin; r < end; ++r) {
      const T* box = k.in<T>(rois_at) + 4 * r;
      T at[4], sum[4] = {};
      s.edges(box, at);
      own.weigh(s, box);
      const T high = std::max(at[3] - at[1], T{0}) / static_cast<T>(s.bins_y);
      const T wide = std::max(at[2] - at[0], T{0}) / static_cast<T>(s.bins_x);
      for (int64_t cell = 0; cell < s.channels * bins; ++cell) {
        const int64_t i = cell % bins / s.bins_x, j = cell % s.bins_x;
        const T grad = k.in<T>(grad_at)[r * s.channels * bins + cell];
        const T* plane = k.in<T>(x_at) + (own.images[r] * s.planes + cell / bins) * pixels;
        const T *wy = own.y.weight + i * s.high, *wx = own.x.weight + j * s.wide;
        const int64_t y0 = own.y.first[i], x0 = own.x.first[j];
        const auto along = [&](int axis, int64_t bin, int64_t all, const EdgeSlopes<T>& edge) {
          const T near = static_cast<T>(bin) / static_cast<T>(all);
          const T far = static_cast<T>(bin + 1) / static_cast<T>(all);
          sum[axis] += grad * (edge.from * (1 - near) + edge.to * (1 - far));
          sum[axis + 2] += grad * (edge.from * near + edge.to * far);
        };
        const T top = at[1] + static_cast<T>(i) * high, left = at[0] + static_cast<T>(j) * wide;
        along(
            1, i, s.bins_y,
            edge_slopes(plane, s.wide, y0, own.y.count[i], top, top + high, wy, [&](const T* row) {
              T value = 0;
              for (int64_t x = 0; x < own.x.count[j]; ++x) value += wx[x] * row[x0 + x];
              return value;
            }));
        along(0, j, s.bins_x,
              edge_slopes(plane, int64_t{1}, x0, own.x.count[j], left, left + wide, wx,
                          [&](const T* column) {
                            T value = 0;
                            for (int64_t y = 0; y < own.y.count[i]; ++y) {
                              value += wy[y] * column[(y0 + y) * s.wide];
                            }
                            return value;
                          }));
      }
      for (int i = 0; i < 4; ++i) {
        k.out<T>(to_at)[4 * r + i] = sum[i] * static_cast<T>(s.scale);
      }
    }
  };
}

template <class T>
BoundKernel region_backward(const KernelSite& site, Weighing how) {
  const RegionSums s(site, how);
  const int x_at = site.position("X"), rois_at = site.position("ROIs");
  const int grad_at = site.position("Out@GRAD"), x_grad = site.out_position("X@GRAD");
  BoundKernel made(give_to_image<T>(s, rois_at, grad_at, x_grad), region_parts(s, s.channels));
  int most = made.parts;
  if (how == Weighing::integral) {
    const int parts = region_parts(s, s.regions);
    made.add(give_to_regions<T>(s, x_at, rois_at, grad_at, site.out_position("ROIs@GRAD")), parts);
    most = std::max(most, parts);
  }
  made.scratch = RegionScratch<T>::bytes(s) * static_cast<size_t>(most);
  return made;
}

void region_shape(OpView& op, Weighing how) {
  require_regions(op, "X", "ROIs", 4);
  const int64_t high = op.attr<int32_t>("pooled_height"), wide = op.attr<int32_t>("pooled_width");
  const ValueInfo& x = op.in("X");
  Dim channels = x.shape[1];
  if (how == Weighing::touched) {
    const int64_t wanted = op.attr<int32_t>("output_channels");
    if (!channels.may_equal(wanted * high * wide)) {
      throw op
          .error(cat("X has ", channels, " channels but output_channels is ", wanted, " for ", high,
                     " x ", wide, " bins"))
          .fix(cat("give X ", wanted * high * wide, " channels"));
    }
    channels = wanted;
  }
  op.set_out("Out", x.dtype, {op.in("ROIs").shape[0], channels, high, wide});
}

SampleRule region_sample(Weighing how, Attrs attrs) {
  return [=](Draw& d) {
    OpSample sample;
    const bool by_position = how == Weighing::touched;
    sample.inputs["X"] = {d.uniform({2, by_position ? 8 : 2, 6, 7})};
    std::vector<double> boxes;
    for (int i = 0; i < 3; ++i) {
      const Tensor at = d.uniform({4}, 0.1, 4.9);
      const auto number = [&](int64_t n) { return element_as_double(at, n); };
      boxes.insert(boxes.end(),
                   {number(0), number(1), number(0) + 1 + number(2), number(1) + 1 + number(3)});
    }
    Tensor rois = make_tensor<double>({3, 4}, std::span<const double>(boxes));
    rois.set_lod({{0, 1, 3}});
    sample.inputs["ROIs"] = {rois};
    sample.attrs = attrs;
    sample.attrs["pooled_height"] = int32_t{2};
    sample.attrs["pooled_width"] = int32_t{2};
    return sample;
  };
}

OpSchema& region_row(OpSchema& row, Weighing how) {
  row.in("X", "[images, channels, height, width]")
      .in("ROIs", "[regions, 4]: corners; a sequence for each image");
  if (how == Weighing::samples)
    row.in_optional("RoisLod", "where the regions of images end, 0 first");
  if (how == Weighing::integral) row.in_optional("BatchRoINums", "how many regions an image has");
  row.attr("spatial_scale", 1.0f, "what corners are multiplied by")
      .attr("pooled_height", 1, "bins of a region")
      .at_least(1)
      .attr("pooled_width", 1, "bins of a region")
      .at_least(1)
      .shape([how](OpView& op) { region_shape(op, how); })
      .kernel(typed_by<float, double>(
          "X", [how]<class T>(const KernelSite& site) { return region_forward<T>(site, how); }))
      .grad_kernel(typed_by<float, double>(
          "X", [how]<class T>(const KernelSite& site) { return region_backward<T>(site, how); }));
  return row;
}

}  // namespace

void register_roi_weights(Registry& ops) {
  region_row(ops.op("roi_align"), Weighing::samples)
      .doc("Regions of images in bins, each the mean of samples between pixels")
      .out("Out", "[regions, channels, pooled_height, pooled_width]")
      .attr("sampling_ratio", -1, "samples of a bin along an axis; not positive: as many as pixels")
      .grad({"X", "ROIs", "RoisLod"})
      .no_grad({"ROIs", "RoisLod"})
      .sample(region_sample(Weighing::samples, {{"spatial_scale", 0.8f}}))
      .sample(region_sample(Weighing::samples, {{"sampling_ratio", int32_t{3}}}));
  region_row(ops.op("psroi_pool"), Weighing::touched)
      .doc("Regions of images in bins, each the mean of its pixels in a channel of its own")
      .out("Out", "[regions, output_channels, pooled_height, pooled_width]")
      .required_attr<int32_t>("output_channels", "channels of X divided by the number of bins")
      .at_least(1)
      .grad({"X", "ROIs"})
      .no_grad({"ROIs"})
      .sample(region_sample(Weighing::touched,
                            {{"spatial_scale", 0.5f}, {"output_channels", int32_t{2}}}));
  region_row(ops.op("prroi_pool"), Weighing::integral)
      .doc("Regions of images in bins, each the integral of the image between its pixels")
      .out("Out", "[regions, channels, pooled_height, pooled_width]")
      .grad({"X", "ROIs", "BatchRoINums", "Out"})  // Out is 1.8.5's to read
      .no_grad({"BatchRoINums"})
      .sample(region_sample(Weighing::integral, {{"spatial_scale", 0.8f}}));
}

}  // namespace trireme
