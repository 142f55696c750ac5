// Images with a border, windows of images, and shifts: pad2d, pad_constant_like, unfold,
// temporal_shift.
#include <algorithm>

#include "ops/rules.h"
#include "ops/tensor/place_map.h"

namespace trireme {
namespace {

using BorderInts = std::vector<int32_t>;

void require_image(const OpView& op, const char* slot) {
  const Shape& x = op.in(slot).shape;
  if (x.rank() == 4) return;
  throw op.error(cat(slot, " has shape ", x))
      .fix(cat("give ", slot, " four dimensions: [batch, channels, height, width]"));
}

// ---- pad2d

std::vector<int64_t> pad2d_sides(const OpView& op) {
  std::vector<int64_t> sides;
  if (op.has("Paddings")) {
    sides = read_ints(op, "Paddings");
    if (sides.empty()) return {};
  } else {
    for (const int32_t side : op.attr<BorderInts>("paddings")) sides.push_back(side);
  }
  if (sides.size() != 4 || *std::min_element(sides.begin(), sides.end()) < 0) {
    throw op.error(cat("paddings is ", Shape(std::span<const int64_t>(sides))))
        .fix("give four numbers from 0: top, bottom, left, right");
  }
  return sides;
}

int image_rows_axis(const OpView& op) {
  return op.attr<std::string>("data_format") == "NCHW" ? 2 : 1;
}

void pad2d_shape(OpView& op) {
  require_image(op, "X");
  const ValueInfo& x = op.in("X");
  const std::vector<int64_t> sides = pad2d_sides(op);
  const int at = image_rows_axis(op);
  Shape out = x.shape;
  for (const int d : {0, 1}) {
    const auto first = static_cast<size_t>(2 * d);
    out[at + d] = sides.empty() ? Dim() : x.shape[at + d] + Dim(sides[first] + sides[first + 1]);
    const bool reflects = op.attr<std::string>("mode") == "reflect";
    if (!sides.empty() && reflects && x.shape[at + d].known() &&
        std::max(sides[first], sides[first + 1]) >= x.shape.at(at + d)) {
      throw op
          .error(cat("mode is reflect and paddings has ", std::max(sides[first], sides[first + 1]),
                     " but X has ", x.shape[at + d], " elements along dimension ", at + d))
          .fix("pad by less than there is to reflect");
    }
  }
  op.set_out("Out", x.dtype, out);
  carry_lod(op, "Out", {"X"});
}

// Where the element `at` of a padded line comes from; -1: from nowhere.
int64_t behind_border(int64_t at, int64_t extent, const std::string& mode) {
  if (at >= 0 && at < extent) return at;
  if (mode == "constant") return -1;
  if (mode == "edge") return std::clamp<int64_t>(at, 0, extent - 1);
  return at < 0 ? -at : 2 * (extent - 1) - at;
}

std::vector<int64_t> pad2d_places(const OpView& op, const Shape& from, const Shape& out) {
  const std::vector<int64_t> sides = pad2d_sides(op);
  if (sides.empty()) {
    throw Error(ErrorKind::unimplemented, "Paddings is a tensor, and X wants a gradient")
        .fix("give paddings as four numbers, or set stop_gradient on X");
  }
  const int at = image_rows_axis(op);
  const std::string mode = op.attr<std::string>("mode");
  const int64_t inner = at == 1 ? out.at(3) : 1,
                outer = at == 1 ? out.at(0) : out.at(0) * out.at(1);
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(out.count()));
  for (int64_t plane = 0; plane < outer; ++plane) {
    for (int64_t i = 0; i < out.at(at); ++i) {
      const int64_t row = behind_border(i - sides[0], from.at(at), mode);
      for (int64_t j = 0; j < out.at(at + 1); ++j) {
        const int64_t column = behind_border(j - sides[2], from.at(at + 1), mode);
        for (int64_t c = 0; c < inner; ++c) {
          places.push_back(row < 0 || column < 0
                               ? -1
                               : ((plane * from.at(at) + row) * from.at(at + 1) + column) * inner +
                                     c);
        }
      }
    }
  }
  return places;
}

void register_pad2d(Registry& ops) {
  OpSchema& row = ops.op("pad2d")
                      .doc("Images with a border")
                      .in("X", "[batch, channels, height, width], or NHWC")
                      .in_optional("Paddings", "int32 [4]; used instead of the attribute")
                      .out("Out", "X with a border")
                      .attr("paddings", BorderInts{0, 0, 0, 0}, "top, bottom, left, right")
                      .attr("pad_value", 0.0f, "what a constant border holds")
                      .attr("mode", "constant", "constant, reflect (without the edge) or edge")
                      .one_of({"constant", "reflect", "edge"})
                      .attr("data_format", "NCHW", "where the channels stand")
                      .one_of({"NCHW", "NHWC"})
                      .shape(pad2d_shape)
                      .grad({"X", "Paddings"})
                      .no_grad({"Paddings"})
                      .traits({.reads_values = {"Paddings"}});
  add_places(row, "X", pad2d_places, "pad_value");
  for (const char* mode : {"constant", "reflect", "edge"}) {
    row.sample([mode = std::string(mode)](Draw& d) {
      const BorderInts sides = {1, 0, 1, 2};
      return OpSample{.inputs = {{"X", {d.uniform({2, 2, 3, 4})}}},
                      .attrs = {{"paddings", sides},
                                {"mode", mode},
                                {"data_format", std::string(mode == "edge" ? "NHWC" : "NCHW")}}};
    });
  }
}

// ---- pad_constant_like

void pad_like_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &y = op.in("Y");
  if (x.shape.rank() != y.shape.rank()) {
    throw op.error(cat("X has shape ", x.shape, " and Y ", y.shape))
        .fix("give both as many dimensions");
  }
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (x.shape[d].known() && y.shape[d].known() && y.shape.at(d) > x.shape.at(d)) {
      throw op.error(cat("Y ", y.shape, " is larger than X ", x.shape, " along dimension ", d))
          .fix("give X, the larger one, first");
    }
  }
  op.set_out("Out", y.dtype, x.shape);
  carry_lod(op, "Out", {"X"});
}

std::vector<int64_t> corner_places(const OpView&, const Shape& from, const Shape& out) {
  std::vector<int64_t> places;
  for (Counter at(out); at.more(); at.next()) {
    int64_t place = 0;
    for (int d = 0; d < out.rank() && place >= 0; ++d) {
      place = at[d] < from.at(d) ? place * from.at(d) + at[d] : -1;
    }
    places.push_back(place);
  }
  return places;
}

// ---- unfold: every window of an image as a column

struct UnfoldSizes {
  std::array<int64_t, 2> kernel, stride, dilation, before, after;
  explicit UnfoldSizes(const OpView& op) {
    const auto kernels = op.attr<BorderInts>("kernel_sizes"),
               strides = op.attr<BorderInts>("strides");
    const auto dilations = op.attr<BorderInts>("dilations"),
               sides = op.attr<BorderInts>("paddings");
    if (kernels.size() != 2 || strides.size() != 2 || dilations.size() != 2 || sides.size() != 4) {
      throw op.error("kernel_sizes, strides and dilations have two numbers, paddings four")
          .fix("give [height, width], and paddings as [top, left, bottom, right]");
    }
    for (size_t d = 0; d < 2; ++d) {
      if (kernels[d] < 1 || strides[d] < 1 || dilations[d] < 1 || sides[d] < 0 ||
          sides[d + 2] < 0) {
        throw op
            .error(cat("kernel_sizes[", d, "] is ", kernels[d], ", strides ", strides[d],
                       ", dilations ", dilations[d], ", paddings ", sides[d]))
            .fix("sizes, strides and dilations begin at 1, paddings at 0");
      }
      kernel[d] = kernels[d];
      stride[d] = strides[d];
      dilation[d] = dilations[d];
      before[d] = sides[d];
      after[d] = sides[d + 2];
    }
  }
  Dim windows(size_t d, Dim extent) const {
    if (!extent.known()) return {};
    const int64_t room = extent.value() + before[d] + after[d] - dilation[d] * (kernel[d] - 1) - 1;
    return room < 0 ? 0 : room / stride[d] + 1;
  }
};

void unfold_shape(OpView& op) {
  require_image(op, "X");
  const ValueInfo& x = op.in("X");
  const UnfoldSizes sizes(op);
  const Dim high = sizes.windows(0, x.shape[2]), wide = sizes.windows(1, x.shape[3]);
  if ((high * wide).may_equal(0) && (high * wide).known()) {
    throw op.error(cat("X ", x.shape, " has no room for a window")).fix("choose smaller windows");
  }
  op.set_out("Y", x.dtype,
             {x.shape[0], x.shape[1] * Dim(sizes.kernel[0] * sizes.kernel[1]), high * wide});
}

template <class Visit>
void each_unfolded(const UnfoldSizes& s, const Shape& x, const Visit& visit) {
  const int64_t high = s.windows(0, x[2]).value(), wide = s.windows(1, x[3]).value();
  int64_t to = 0;
  for (int64_t plane = 0; plane < x.at(0) * x.at(1); ++plane) {
    for (int64_t ki = 0; ki < s.kernel[0]; ++ki) {
      for (int64_t kj = 0; kj < s.kernel[1]; ++kj) {
        for (int64_t i = 0; i < high; ++i) {
          const int64_t row = i * s.stride[0] + ki * s.dilation[0] - s.before[0];
          for (int64_t j = 0; j < wide; ++j, ++to) {
            const int64_t column = j * s.stride[1] + kj * s.dilation[1] - s.before[1];
            const bool inside = row >= 0 && row < x.at(2) && column >= 0 && column < x.at(3);
            visit(to, inside ? (plane * x.at(2) + row) * x.at(3) + column : -1);
          }
        }
      }
    }
  }
}

template <class T, bool kBack>
BoundKernel unfold_kernel(const KernelSite& site) {
  const UnfoldSizes sizes(site);
  const Shape x = site.in("X").shape;
  const int from_at = site.position(kBack ? "Y@GRAD" : "X");
  return [=](const KernelArgs& k) {
    const T* from = k.in<T>(from_at);
    T* out = k.out<T>(0);
    if (kBack) std::fill_n(out, x.count(), T{0});
    each_unfolded(sizes, x, [&](int64_t column, int64_t pixel) {
      if (kBack) {
        if (pixel >= 0) out[pixel] += from[column];
      } else {
        out[column] = pixel < 0 ? T{0} : from[pixel];
      }
    });
  };
}

void register_unfold_op(Registry& ops) {
  ops.op("unfold")
      .doc("Every window of an image as one column")
      .in("X", "[batch, channels, height, width]")
      .out("Y", "[batch, channels * kernel height * kernel width, windows]")
      .required_attr<BorderInts>("kernel_sizes", "height and width of a window")
      .attr("strides", BorderInts{1, 1}, "from one window to the next")
      .attr("paddings", BorderInts{0, 0, 0, 0}, "top, left, bottom, right")
      .attr("dilations", BorderInts{1, 1}, "from one element of a window to the next")
      .shape(unfold_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return unfold_kernel<T, false>(s); }))
      .grad({"X"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return unfold_kernel<T, true>(s); }))
      .grad_vjp(linear_gradient({"X"}))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 2, 4, 5})}}},
                        .attrs = {{"kernel_sizes", BorderInts{2, 3}},
                                  {"strides", BorderInts{2, 1}},
                                  {"paddings", BorderInts{1, 0, 0, 1}},
                                  {"dilations", BorderInts{1, 2}}}};
      });
}

// ---- temporal_shift

void temporal_shape(OpView& op) {
  require_image(op, "X");
  const Shape& x = op.in("X").shape;
  const int32_t frames = op.attr<int32_t>("seg_num");
  if (frames < 1 || (x[0].known() && x.at(0) % frames != 0)) {
    throw op.error(cat("seg_num is ", frames, " but X has ", x[0], " frames"))
        .fix("give X a multiple of seg_num frames");
  }
  op.set_out_like("Out", op.in("X"));
}

// The first channels are those of the frame before, the next those of the frame after.
std::vector<int64_t> temporal_places(const OpView& op, const Shape& x, const Shape&) {
  const int64_t frames = op.attr<int32_t>("seg_num"), pixels = x.at(2) * x.at(3);
  const float ratio = op.attr<float>("shift_ratio");
  const auto early = static_cast<int64_t>(static_cast<float>(x.at(1)) * ratio);
  const auto late = static_cast<int64_t>(static_cast<float>(x.at(1)) * 2 * ratio);
  std::vector<int64_t> places;
  for (int64_t image = 0; image < x.at(0); ++image) {
    for (int64_t channel = 0; channel < x.at(1); ++channel) {
      const int64_t shift = channel < early ? -1 : channel < late ? 1 : 0;
      const int64_t frame = image % frames + shift;
      const bool inside = frame >= 0 && frame < frames;
      const int64_t from = ((image + shift) * x.at(1) + channel) * pixels;
      for (int64_t i = 0; i < pixels; ++i) places.push_back(inside ? from + i : -1);
    }
  }
  return places;
}

}  // namespace

void register_padding(Registry& ops) {
  register_pad2d(ops);
  OpSchema& like =
      ops.op("pad_constant_like")
          .doc("Y made as large as X, the new elements at the ends")
          .in("X", "has the shape wanted")
          .in("Y", "X's rank, nowhere larger")
          .out("Out", "Y in a corner of X's shape")
          .attr("pad_value", 0.0f, "what the other elements hold")
          .shape(pad_like_shape)
          .grad({"X", "Y"})
          .no_grad({"X"})
          .sample([](Draw& d) {
            return OpSample{.inputs = {{"X", {d.uniform({3, 4})}}, {"Y", {d.uniform({2, 3})}}},
                            .attrs = {{"pad_value", 0.5f}}};
          });
  add_places(like, "Y", corner_places, "pad_value");
  register_unfold_op(ops);
  OpSchema& shift = ops.op("temporal_shift")
                        .doc("Some channels of every frame come from the frame before or after it")
                        .in("X", "[videos * seg_num, channels, height, width]")
                        .out("Out", "X's shape")
                        .required_attr<int32_t>("seg_num", "frames of a video")
                        .attr("shift_ratio", 0.25f, "which part of the channels each way")
                        .between(0, 0.5)
                        .shape(temporal_shape)
                        .grad({"X"})
                        .sample([](Draw& d) {
                          return OpSample{.inputs = {{"X", {d.uniform({4, 4, 2, 2})}}},
                                          .attrs = {{"seg_num", int32_t{2}}}};
                        });
  add_places(shift, "X", temporal_places);
}

}  // namespace trireme
