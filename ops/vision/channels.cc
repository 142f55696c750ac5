// Channels of images moved, scaled and compared: affine_channel, pixel_shuffle, shuffle_channel,
// maxout, lrn.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void require_channels(const OpView& op, const char* slot = "X") {
  const Shape& x = op.in(slot).shape;
  if (x.rank() == 4) return;
  throw op.error(cat(slot, " has shape ", x)).fix("give [batch, channels, height, width]");
}

// `extent` of `what` must be a multiple of `by`.
void require_multiple(const OpView& op, Dim extent, int64_t by, const char* what, const char* of) {
  if (by > 0 && (!extent.known() || extent.value() % by == 0)) return;
  throw op.error(cat("X has ", extent, " ", what, " but ", of, " is ", by))
      .fix(cat("give X a multiple of ", of, " ", what));
}

// ---- affine_channel

int channel_axis(const OpView& op) {
  return op.attr<std::string>("data_layout") == "NHWC" ? op.in("X").shape.rank() - 1 : 1;
}

void affine_channel_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_floating(op, "X");
  if (x.shape.rank() != 4 && x.shape.rank() != 2) {
    throw op.error(cat("X has shape ", x.shape)).fix("give [batch, channels, height, width]");
  }
  for (const char* slot : {"Scale", "Bias"}) {
    const Shape& one = op.in(slot).shape;
    if (one.rank() != 1 || !one[0].may_equal(x.shape[channel_axis(op)])) {
      throw op.error(cat(slot, " has shape ", one, " but X ", x.shape))
          .fix(cat("give ", slot, " one number for each channel"));
    }
  }
  op.set_out_like("Out", x);
}

void affine_channel_body(Body& b) {
  const Expr x = b.in("X");
  const int axis = channel_axis(b.op());
  b.out("Out") = x * align(b.in("Scale"), x.rank(), axis) + align(b.in("Bias"), x.rank(), axis);
}

SampleRule affine_sample(const char* layout) {
  return [layout = std::string(layout)](Draw& d) {
    const Shape x = layout == "NHWC" ? Shape{2, 3, 2, 4} : Shape{2, 4, 3, 2};
    return OpSample{
        .inputs = {{"X", {d.uniform(x)}}, {"Scale", {d.uniform({4})}}, {"Bias", {d.uniform({4})}}},
        .attrs = {{"data_layout", layout}}};
  };
}

// ---- bodies that only move

void pixel_shuffle_shape(OpView& op) {
  require_channels(op);
  const ValueInfo& x = op.in("X");
  const int64_t r = op.attr<int32_t>("upscale_factor");
  require_multiple(op, x.shape[1], r * r, "channels", "upscale_factor squared");
  op.set_out("Out", x.dtype,
             {x.shape[0], x.shape[1] / Dim(r * r), x.shape[2] * Dim(r), x.shape[3] * Dim(r)});
}

void shuffle_channel_shape(OpView& op) {
  require_channels(op);
  require_multiple(op, op.in("X").shape[1], op.attr<int32_t>("group"), "channels", "group");
  op.set_out_like("Out", op.in("X"));
}

std::vector<int64_t> extents_of(Expr x) { return x.shape().to_vector(); }

void register_moves(Registry& ops) {
  ops.op("pixel_shuffle")
      .doc("Channels become pixels: images upscale_factor times as high and wide")
      .in("X", "[batch, channels * upscale_factor^2, height, width]")
      .out("Out", "[batch, channels, height * upscale_factor, width * upscale_factor]")
      .attr("upscale_factor", 1, "how many times as high and wide")
      .at_least(1)
      .shape(pixel_shuffle_shape)
      .body([](Body& b) {
        const Expr x = b.in("X");
        const int64_t r = b.attr<int32_t>("upscale_factor");
        const std::vector<int64_t> e = extents_of(x);
        const Expr apart = reshape(x, {-1, e[1] / (r * r), r, r, e[2], e[3]});
        b.out("Out") =
            reshape(transpose(apart, {0, 1, 4, 2, 5, 3}), {-1, e[1] / (r * r), e[2] * r, e[3] * r});
      })
      .grad({"X"})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 8, 2, 3})}}},
                        .attrs = {{"upscale_factor", int32_t{2}}}};
      });
  ops.op("shuffle_channel")
      .doc("Channels in groups, taken from one group after another")
      .in("X", "[batch, channels, height, width]")
      .out("Out", "X's shape")
      .attr("group", 1, "groups of channels")
      .at_least(1)
      .shape(shuffle_channel_shape)
      .body([](Body& b) {
        const Expr x = b.in("X");
        const int64_t group = b.attr<int32_t>("group");
        const std::vector<int64_t> e = extents_of(x);
        const Expr apart = reshape(x, {-1, group, e[1] / group, e[2] * e[3]});
        b.out("Out") = reshape_like(transpose(apart, {0, 2, 1, 3}), x);
      })
      .grad({"X"})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 6, 2, 2})}}},
                        .attrs = {{"group", int32_t{3}}}};
      });
}

// ---- maxout

void maxout_shape(OpView& op) {
  require_channels(op);
  require_floating(op, "X");
  const ValueInfo& x = op.in("X");
  const int axis = normal_axis(op, op.attr<int32_t>("axis"), 4);
  const int32_t groups = op.attr<int32_t>("groups");
  if (groups < 2) throw op.error(cat("groups is ", groups)).fix("give 2 or more");
  require_multiple(op, x.shape[axis], groups, "channels", "groups");
  Shape out = x.shape;
  out[axis] = x.shape[axis] / Dim(groups);
  op.set_out("Out", x.dtype, out);
}

void maxout_body(Body& b) {
  const Expr x = b.in("X");
  const int axis = normal_axis(b.op(), b.attr<int32_t>("axis"), 4);
  const int64_t groups = b.attr<int32_t>("groups");
  std::vector<int64_t> e = extents_of(x);
  e[0] = -1;
  e[static_cast<size_t>(axis)] /= groups;
  e.insert(e.begin() + axis + 1, groups);
  b.out("Out") = reduce_max(reshape(x, e), {axis + 1});
}

// ---- lrn: numbers divided by a power of the squares of their neighbours in other channels

void lrn_shape(OpView& op) {
  require_channels(op);
  require_floating(op, "X");
  if (op.attr<int32_t>("n") < 1 || op.attr<int32_t>("n") % 2 == 0) {
    throw op.error(cat("n is ", op.attr<int32_t>("n"))).fix("give an odd number of channels");
  }
  op.set_out("MidOut", op.in("X").dtype, op.in("X").shape);
  op.set_out_like("Out", op.in("X"));
}

struct LrnForm {
  int64_t outer, channels, inner, half;
  double k, alpha, beta;
  explicit LrnForm(const KernelSite& site) {
    const Shape& x = site.in("X").shape;
    const bool last = site.attr<std::string>("data_format") == "NHWC";
    outer = last ? x.product(0, 3).value() : x.at(0);
    channels = x.at(last ? 3 : 1);
    inner = last ? 1 : x.at(2) * x.at(3);
    half = site.attr<int32_t>("n") / 2;
    k = site.attr<float>("k");
    alpha = site.attr<float>("alpha");
    beta = site.attr<float>("beta");
  }
  // Calls visit(element, first of its line, this channel) for the lines that a part has.
  template <class Visit>
  void each(std::pair<int64_t, int64_t> lines, const Visit& visit) const {
    for (int64_t line = lines.first; line < lines.second; ++line) {
      const int64_t base = line / inner * channels * inner + line % inner;
      for (int64_t c = 0; c < channels; ++c) visit(base + c * inner, base, c);
    }
  }
  template <class Term>
  double near(int64_t c, const Term& term) const {
    double sum = 0;
    for (int64_t j = std::max<int64_t>(c - half, 0); j <= std::min(c + half, channels - 1); ++j) {
      sum += term(j);
    }
    return sum;
  }
};

template <class T>
BoundKernel lrn_kernel(const KernelSite& site) {
  const LrnForm form(site);
  const int out_at = site.out_position("Out"), mid_at = site.out_position("MidOut");
  return BoundKernel(
      [=](const KernelArgs& args) {
        const T* x = args.in<T>(0);
        form.each(args.range(form.outer * form.inner), [&](int64_t i, int64_t base, int64_t c) {
          const double squares = form.near(c, [&](int64_t j) {
            const double one = x[base + j * form.inner];
            return one * one;
          });
          const double mid = form.k + form.alpha * squares;
          if (args.has_out(mid_at)) args.out<T>(mid_at)[i] = static_cast<T>(mid);
          args.out<T>(out_at)[i] = static_cast<T>(x[i] * std::pow(mid, -form.beta));
        });
      },
      parts_for(site.in("X").shape.count()));
}

template <class T>
BoundKernel lrn_grad_kernel(const KernelSite& site) {
  const LrnForm form(site);
  const int x_at = site.position("X"), out_at = site.position("Out");
  const int mid_at = site.position("MidOut"), grad_at = site.position("Out@GRAD");
  return BoundKernel(
      [=](const KernelArgs& args) {
        const T *x = args.in<T>(x_at), *out = args.in<T>(out_at), *mid = args.in<T>(mid_at);
        const T* grad = args.in<T>(grad_at);
        form.each(args.range(form.outer * form.inner), [&](int64_t i, int64_t base, int64_t c) {
          const double others = form.near(c, [&](int64_t j) {
            const int64_t at = base + j * form.inner;
            return static_cast<double>(grad[at]) * out[at] / mid[at];
          });
          args.out<T>(0)[i] =
              static_cast<T>(grad[i] * std::pow(static_cast<double>(mid[i]), -form.beta) -
                             2 * form.alpha * form.beta * x[i] * others);
        });
      },
      parts_for(site.in("X").shape.count()));
}

void register_lrn(Registry& ops) {
  OpSchema& row = ops.op("lrn")
                      .doc("X / (k + alpha * the squares of n neighbouring channels)^beta")
                      .in("X", "[batch, channels, height, width], or NHWC")
                      .out("Out", "X's shape")
                      .out_intermediate("MidOut", "k + alpha * the sum of squares")
                      .attr("n", 5, "channels that count, an odd number")
                      .attr("k", 2.0f, "added to the squares")
                      .attr("alpha", 0.0001f, "factor of the squares")
                      .attr("beta", 0.75f, "the exponent")
                      .attr("data_format", "NCHW", "where the channels stand")
                      .one_of({"NCHW", "NHWC"})
                      .shape(lrn_shape)
                      .kernel(typed<float, double>(
                          []<class T>(const KernelSite& s) { return lrn_kernel<T>(s); }))
                      .grad({"X", "Out", "MidOut"})
                      .grad_kernel(typed<float, double>(
                          []<class T>(const KernelSite& s) { return lrn_grad_kernel<T>(s); }));
  for (const char* layout : {"NCHW", "NHWC"}) {
    row.sample([layout = std::string(layout)](Draw& d) {
      return OpSample{.inputs = {{"X", {d.uniform({2, 6, 2, 4})}}},
                      .attrs = {{"n", int32_t{3}}, {"alpha", 0.5f}, {"data_format", layout}}};
    });
  }
}

}  // namespace

void register_channels(Registry& ops) {
  ops.op("affine_channel")
      .doc("Every channel multiplied by its own number, another one added")
      .in("X", "[batch, channels, height, width], NHWC, or [batch, channels]")
      .in("Scale", "[channels]")
      .in("Bias", "[channels]")
      .out("Out", "X * Scale + Bias")
      .attr("data_layout", "AnyLayout", "where the channels stand; any but NHWC: at axis 1")
      .one_of({"AnyLayout", "NCHW", "NHWC"})
      .shape(affine_channel_shape)
      .body(affine_channel_body)
      .grad({"X", "Scale", "Bias"})
      .inplace("X", "Out")
      .sample(affine_sample("NCHW"))
      .sample(affine_sample("NHWC"));
  register_moves(ops);
  ops.op("maxout")
      .doc("The largest of every `groups` neighbouring channels")
      .in("X", "[batch, channels, height, width], or NHWC")
      .out("Out", "X with 1 / groups of the channels")
      .required_attr<int32_t>("groups", "channels that become one")
      .attr("axis", 1, "where the channels stand")
      .shape(maxout_shape)
      .body(maxout_body)
      .grad({"X", "Out"})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.distinct({2, 4, 2, 3})}}},
                        .attrs = {{"groups", int32_t{2}}}};
      });
  register_lrn(ops);
}

}  // namespace trireme
