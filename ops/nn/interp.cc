// Images of another size: nearest_interp and bilinear_interp.
#include <algorithm>
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

bool channels_last(const OpView& op) { return op.attr<std::string>("data_layout") == "NHWC"; }

// Height and width of the result: from SizeTensor, else from OutSize, else from the scale, else
// from the attributes. Unknown while they depend on tensors that are not computed yet.
struct OutSize {
  Dim height, width;
};
OutSize out_size(const OpView& op, Dim height, Dim width) {
  if (op.count("SizeTensor") > 0) {
    if (op.count("SizeTensor") != 2) {
      throw op.error(cat("SizeTensor has ", op.count("SizeTensor"), " tensors"))
          .fix("give the height and the width");
    }
    const std::vector<int64_t> h = read_ints(op, "SizeTensor", 0),
                               w = read_ints(op, "SizeTensor", 1);
    return h.empty() || w.empty() ? OutSize{} : OutSize{h[0], w[0]};
  }
  if (op.has("OutSize")) {
    const std::vector<int64_t> size = read_ints(op, "OutSize");
    if (size.empty()) return {};
    if (size.size() != 2) {
      throw op.error(cat("OutSize has ", size.size(), " numbers")).fix("give height and width");
    }
    return {size[0], size[1]};
  }
  double scale = op.attr<float>("scale");
  if (op.has("Scale")) {
    if (!op.in("Scale").value) return {};
    scale = element_as_double(op.in("Scale").value->tensor(), 0);
    if (!(scale > 0)) throw op.error(cat("Scale is ", scale)).fix("give a positive scale");
  }
  if (scale > 0) {
    const auto scaled = [scale](Dim extent) {
      return extent.known() ? Dim(static_cast<int64_t>(static_cast<double>(extent.value()) * scale))
                            : Dim();
    };
    return {scaled(height), scaled(width)};
  }
  return {op.attr<int32_t>("out_h"), op.attr<int32_t>("out_w")};
}

void interp_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() != 4) {
    throw op.error(cat("X has shape ", x.shape))
        .fix("give X four dimensions, [batch, channels, height, width] or NHWC");
  }
  const int at = channels_last(op) ? 1 : 2;
  const OutSize size = out_size(op, x.shape[at], x.shape[at + 1]);
  if ((size.height.known() && size.height.value() == 0) ||
      (size.width.known() && size.width.value() == 0)) {
    throw op.error(cat("the result would be ", size.height, " x ", size.width))
        .fix("set out_h and out_w, or a scale, or give OutSize");
  }
  Shape out = x.shape;
  out[at] = size.height;
  out[at + 1] = size.width;
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

struct Interpolation {
  int64_t planes, pixel;  // images to walk, numbers in a pixel
  int64_t in_high, in_wide;
  std::vector<Neighbours> rows, columns;

  Interpolation(const OpView& op, const Shape& x, const Shape& out, bool nearest) {
    const bool last = channels_last(op);
    const int at = last ? 1 : 2;
    planes = last ? x.at(0) : x.at(0) * x.at(1);
    pixel = last ? x.at(3) : 1;
    in_high = x.at(at);
    in_wide = x.at(at + 1);
    const bool corners = op.attr<bool>("align_corners");
    const bool centres = op.attr<int32_t>("align_mode") == 0 && !corners;
    rows = neighbours_of(in_high, out.at(at), nearest, corners, centres);
    columns = neighbours_of(in_wide, out.at(at + 1), nearest, corners, centres);
  }

  // Calls visit(element of the result, element of X, weight) four times at most for each.
  template <class Visit>
  void each(std::pair<int64_t, int64_t> range, const Visit& visit) const {
    const auto high = static_cast<int64_t>(rows.size()),
               wide = static_cast<int64_t>(columns.size());
    for (int64_t plane = range.first; plane < range.second; ++plane) {
      for (int64_t i = 0; i < high; ++i) {
        for (int64_t j = 0; j < wide; ++j) {
          const Neighbours &row = rows[static_cast<size_t>(i)],
                           &column = columns[static_cast<size_t>(j)];
          const int64_t to = ((plane * high + i) * wide + j) * pixel;
          const auto corner = [&](int64_t y, int64_t x, double weight) {
            if (weight == 0) return;
            const int64_t from = ((plane * in_high + y) * in_wide + x) * pixel;
            for (int64_t c = 0; c < pixel; ++c) visit(to + c, from + c, weight);
          };
          corner(row.before, column.before, (1 - row.share) * (1 - column.share));
          corner(row.before, column.after, (1 - row.share) * column.share);
          corner(row.after, column.before, row.share * (1 - column.share));
          corner(row.after, column.after, row.share * column.share);
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

SampleRule interp_sample(bool corners, int32_t mode, const std::string& layout) {
  return [=](Draw& draw) {
    OpSample sample;
    sample.inputs["X"] = {
        draw.uniform({draw.size(1, 2), draw.size(1, 3), draw.size(2, 4), draw.size(2, 4)})};
    sample.attrs["data_layout"] = layout;
    sample.attrs["align_corners"] = corners;
    sample.attrs["align_mode"] = mode;
    if (draw.coin()) {
      sample.attrs["scale"] = 1.5f;
    } else {
      sample.attrs["out_h"] = static_cast<int32_t>(draw.size(1, 5));
      sample.attrs["out_w"] = static_cast<int32_t>(draw.size(1, 5));
    }
    return sample;
  };
}

void add_interp(Registry& ops, const std::string& method) {
  const bool nearest = method == "nearest";
  ops.op(method + "_interp")
      .doc(nearest ? "Images of another size, each pixel the nearest one of X"
                   : "Images of another size, each pixel a mean of the four around it in X")
      .in("X", "[batch, channels, height, width], or NHWC")
      .in_optional("OutSize", "int32 [2]: height and width of the result")
      .in_optional_list("SizeTensor", "height and width, a tensor each; used first")
      .in_optional("Scale", "[1]: used instead of the attribute")
      .out("Out", "X in the new size")
      .attr("data_layout", "NCHW", "where the channels stand")
      .one_of({"NCHW", "NHWC"})
      .attr("out_d", 0, "accepted; of images with depth")
      .attr("out_h", 0, "height of the result")
      .attr("out_w", 0, "width of the result")
      .attr("scale", 0.0f, "positive: the size is that of X times this")
      .attr("interp_method", "bilinear", "accepted; the op's type says it")
      .attr("align_corners", true, "corner pixels fall on corner pixels")
      .attr("align_mode", 1, "without align_corners: 0 aligns the centres of pixels, 1 their edges")
      .between(0, 1)
      .shape(interp_shape)
      .traits({.reads_values = {"OutSize", "SizeTensor", "Scale"}})
      .kernel(typed<float, double>(
          [nearest]<class T>(const KernelSite& s) { return interp<T, false>(s, nearest); }))
      .grad({"X", "SizeTensor", "OutSize", "Scale"})
      .no_grad({"SizeTensor", "OutSize", "Scale"})
      .grad_kernel(typed<float, double>(
          [nearest]<class T>(const KernelSite& s) { return interp<T, true>(s, nearest); }))
      .grad_vjp(linear_gradient({"X"}))
      .sample(interp_sample(true, 1, "NCHW"))
      .sample(interp_sample(false, 1, "NHWC"))
      .sample(interp_sample(false, 0, "NCHW"));
}

}  // namespace

void register_interp(Registry& ops) {
  add_interp(ops, "nearest");
  add_interp(ops, "bilinear");
}

}  // namespace trireme
