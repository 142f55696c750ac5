// Images of another size: nearest_interp, bilinear_interp and, of images with depth,
// trilinear_interp.
#include <algorithm>
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

bool channels_last(const OpView& op) { return op.attr<std::string>("data_layout").back() == 'C'; }

// Extents of the result: from SizeTensor, else from OutSize, else from the scale, else from the
// attributes. Unknown while they depend on tensors that are not computed yet.
std::vector<Dim> out_size(const OpView& op, const std::vector<Dim>& image) {
  const size_t axes = image.size();
  const std::vector<Dim> unknown(axes);
  const std::string what = axes == 2 ? "height and width" : "depth, height and width";
  if (op.count("SizeTensor") > 0) {
    if (op.count("SizeTensor") != axes) {
      throw op.error(cat("SizeTensor has ", op.count("SizeTensor"), " tensors"))
          .fix("give " + what);
    }
    std::vector<Dim> found;
    for (size_t i = 0; i < axes; ++i) {
      const std::vector<int64_t> extent = read_ints(op, "SizeTensor", i);
      if (extent.empty()) return unknown;
      found.push_back(extent[0]);
    }
    return found;
  }
  if (op.has("OutSize")) {
    const std::vector<int64_t> size = read_ints(op, "OutSize");
    if (size.empty()) return unknown;
    if (size.size() != axes) {
      throw op.error(cat("OutSize has ", size.size(), " numbers")).fix("give " + what);
    }
    return {size.begin(), size.end()};
  }
  double scale = op.attr<float>("scale");
  if (op.has("Scale")) {
    if (!op.in("Scale").value) return unknown;
    scale = element_as_double(op.in("Scale").value->tensor(), 0);
    if (!(scale > 0)) throw op.error(cat("Scale is ", scale)).fix("give a positive scale");
  }
  if (scale > 0) {
    std::vector<Dim> found;
    for (const Dim extent : image) {
      found.push_back(extent.known()
                          ? Dim(static_cast<int64_t>(static_cast<double>(extent.value()) * scale))
                          : Dim());
    }
    return found;
  }
  std::vector<Dim> found = {op.attr<int32_t>("out_h"), op.attr<int32_t>("out_w")};
  if (axes == 3) found.insert(found.begin(), op.attr<int32_t>("out_d"));
  return found;
}

void interp_shape(OpView& op, int axes) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() != axes + 2) {
    throw op.error(cat("X has shape ", x.shape))
        .fix(axes == 2 ? "give X four dimensions, [batch, channels, height, width] or NHWC"
                       : "give X five dimensions, [batch, channels, depth, height, width] or NHWC");
  }
  const int at = channels_last(op) ? 1 : 2;
  std::vector<Dim> image;
  for (int i = 0; i < axes; ++i) image.push_back(x.shape[at + i]);
  const std::vector<Dim> size = out_size(op, image);
  Shape out = x.shape;
  for (int i = 0; i < axes; ++i) {
    const Dim extent = size[static_cast<size_t>(i)];
    if (extent.known() && extent.value() == 0) {
      throw op.error(cat("the result would be ", join(size, " x ")))
          .fix("set out_h and out_w, or a scale, or give OutSize");
    }
    out[at + i] = extent;
  }
  op.set_out("Out", x.dtype, out);
}

// Along one dimension, for every element of the result: the element before it, the one after it,
// and how much of the second it takes.
struct Neighbours {
  int64_t before, after;
  double share;
};

// How far apart elements of the result are in X.
double ratio_of(int64_t from, int64_t to, bool corners) {
  if (to <= 1) return 0;
  return corners ? static_cast<double>(from - 1) / static_cast<double>(to - 1)
                 : static_cast<double>(from) / static_cast<double>(to);
}

std::vector<Neighbours> neighbours_of(int64_t from, int64_t to, bool nearest, bool corners,
                                      bool centres) {
  // The original computes the ratio in float32; so rounding falls the same way.
  const auto ratio = static_cast<float>(ratio_of(from, to, corners));
  std::vector<Neighbours> all;
  for (int64_t i = 0; i < to; ++i) {
    const auto step = static_cast<float>(i);
    if (nearest) {
      const auto at = static_cast<int64_t>(corners ? ratio * step + 0.5f : ratio * step);
      all.push_back({at, at, 0});
      continue;
    }
    const float position = centres ? std::max(ratio * (step + 0.5f) - 0.5f, 0.0f) : ratio * step;
    const auto before = static_cast<int64_t>(position);
    all.push_back({before, std::min(before + 1, from - 1),
                   static_cast<double>(position - static_cast<float>(before))});
  }
  return all;
}

// Depth, height, width; images without depth have one slice.
struct Interpolation {
  int64_t planes, pixel;  // images to walk, numbers in a pixel
  int64_t in_high, in_wide, in_pixels;
  std::vector<Neighbours> slices, rows, columns;

  Interpolation(const OpView& op, const Shape& x, const Shape& out, bool nearest) {
    const bool last = channels_last(op), deep = x.rank() == 5;
    const int at = last ? 1 : 2, flat = deep ? at + 1 : at;
    planes = last ? x.at(0) : x.at(0) * x.at(1);
    pixel = last ? x.at(x.rank() - 1) : 1;
    in_high = x.at(flat);
    in_wide = x.at(flat + 1);
    in_pixels = (deep ? x.at(at) : 1) * in_high * in_wide;
    const bool corners = op.attr<bool>("align_corners");
    const bool centres = op.attr<int32_t>("align_mode") == 0 && !corners;
    slices = deep ? neighbours_of(x.at(at), out.at(at), nearest, corners, centres)
                  : std::vector<Neighbours>{{0, 0, 0}};
    rows = neighbours_of(in_high, out.at(flat), nearest, corners, centres);
    columns = neighbours_of(in_wide, out.at(flat + 1), nearest, corners, centres);
  }

  // Calls visit(element of the result, element of X, weight) for each element and the pixels around
  // it: four, with depth eight, at most.
  template <class Visit>
  void each(std::pair<int64_t, int64_t> range, const Visit& visit) const {
    int64_t to = range.first * static_cast<int64_t>(slices.size() * rows.size() * columns.size());
    to *= pixel;
    for (int64_t plane = range.first; plane < range.second; ++plane) {
      for (const Neighbours& slice : slices) {
        for (const Neighbours& row : rows) {
          for (const Neighbours& column : columns) {
            const auto corner = [&](int64_t z, int64_t y, int64_t x, double weight) {
              if (weight == 0) return;
              const int64_t from = (plane * in_pixels + (z * in_high + y) * in_wide + x) * pixel;
              for (int64_t c = 0; c < pixel; ++c) visit(to + c, from + c, weight);
            };
            const auto around = [&](int64_t z, double weight) {
              corner(z, row.before, column.before, weight * (1 - row.share) * (1 - column.share));
              corner(z, row.before, column.after, weight * (1 - row.share) * column.share);
              corner(z, row.after, column.before, weight * row.share * (1 - column.share));
              corner(z, row.after, column.after, weight * row.share * column.share);
            };
            around(slice.before, 1 - slice.share);
            if (slice.share != 0) around(slice.after, slice.share);
            to += pixel;
          }
        }
      }
    }
  }
};

// Out from X, or backwards X@GRAD from Out@GRAD: the same weights the other way round.
template <class T, bool kBack>
BoundKernel interp(const KernelSite& site, bool nearest) {
  const Shape& image = site.in("X").shape;
  const Shape& resized = kBack ? site.in("Out@GRAD").shape : site.out("Out").shape;
  const Interpolation form(site, image, resized, nearest);
  const int64_t count = (kBack ? image : resized).count();
  const int source_at = site.position(kBack ? "Out@GRAD" : "X");
  const int64_t plane = form.planes == 0 ? 0 : count / form.planes;
  const auto parts = static_cast<int>(std::clamp<int64_t>(form.planes, 1, parts_for(count)));
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto range = k.range(form.planes);
        T* result = k.out<T>(0);
        const T* source = k.in<T>(source_at);
        std::fill(result + range.first * plane, result + range.second * plane, T{0});
        form.each(range, [&](int64_t in_resized, int64_t in_image, double weight) {
          const int64_t to = kBack ? in_image : in_resized;
          result[to] += static_cast<T>(weight) * source[kBack ? in_resized : in_image];
        });
      },
      parts);
}

SampleRule interp_sample(bool corners, int32_t mode, const std::string& layout, bool deep) {
  return [=](Draw& draw) {
    OpSample sample;
    Shape x = {draw.size(1, 2), draw.size(1, 3), draw.size(2, 4), draw.size(2, 4)};
    if (deep) x.push_back(draw.size(2, 3));
    sample.inputs["X"] = {draw.uniform(x)};
    sample.attrs["data_layout"] = layout;
    sample.attrs["align_corners"] = corners;
    sample.attrs["align_mode"] = mode;
    if (draw.coin()) {
      sample.attrs["scale"] = 1.5f;
    } else {
      if (deep) sample.attrs["out_d"] = static_cast<int32_t>(draw.size(1, 5));
      sample.attrs["out_h"] = static_cast<int32_t>(draw.size(1, 5));
      sample.attrs["out_w"] = static_cast<int32_t>(draw.size(1, 5));
    }
    return sample;
  };
}

void add_interp(Registry& ops, const std::string& method) {
  const bool nearest = method == "nearest", deep = method == "trilinear";
  ops.op(method + "_interp")
      .doc(nearest ? "Images of another size, each pixel the nearest one of X"
           : deep
               ? "Images with depth of another size, each pixel a mean of the eight around it in X"
               : "Images of another size, each pixel a mean of the four around it in X")
      .in("X", deep ? "[batch, channels, depth, height, width], or NHWC"
                    : "[batch, channels, height, width], or NHWC")
      .in_optional("OutSize", deep ? "int32 [3]: depth, height and width of the result"
                                   : "int32 [2]: height and width of the result")
      .in_optional_list("SizeTensor", deep ? "depth, height and width, a tensor each; used first"
                                           : "height and width, a tensor each; used first")
      .in_optional("Scale", "[1]: used instead of the attribute")
      .out("Out", "X in the new size")
      .attr("data_layout", "NCHW", "where the channels stand")
      .one_of({"NCHW", "NHWC"})
      .attr("out_d", 0, deep ? "depth of the result" : "accepted; of images with depth")
      .attr("out_h", 0, "height of the result")
      .attr("out_w", 0, "width of the result")
      .attr("scale", 0.0f, "positive: the size is that of X times this")
      .attr("interp_method", "bilinear", "accepted; the op's type says it")
      .attr("align_corners", true, "corner pixels fall on corner pixels")
      .attr("align_mode", 1, "without align_corners: 0 aligns the centres of pixels, 1 their edges")
      .between(0, 1)
      .shape([deep](OpView& op) { interp_shape(op, deep ? 3 : 2); })
      .traits({.reads_values = {"OutSize", "SizeTensor", "Scale"}})
      .kernel(typed<float, double>(
          [nearest]<class T>(const KernelSite& s) { return interp<T, false>(s, nearest); }))
      .grad({"X", "SizeTensor", "OutSize", "Scale"})
      .no_grad({"SizeTensor", "OutSize", "Scale"})
      .grad_kernel(typed<float, double>(
          [nearest]<class T>(const KernelSite& s) { return interp<T, true>(s, nearest); }))
      .grad_vjp(linear_gradient({"X"}))
      .sample(interp_sample(true, 1, "NCHW", deep))
      .sample(interp_sample(false, 1, "NHWC", deep))
      .sample(interp_sample(false, 0, "NCHW", deep));
}

}  // namespace

void register_interp(Registry& ops) {
  add_interp(ops, "nearest");
  add_interp(ops, "bilinear");
  add_interp(ops, "trilinear");
}

}  // namespace trireme
