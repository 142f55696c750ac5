// Batch normalisation with an activation behind it: shapes, kernel and gradient of batch_norm,
// inplace_abn, fused_batch_norm_act and fused_bn_add_activation.
#pragma once

#include <cmath>
#include <string>

#include "ir/schema.h"
#include "ops/batch_norm_lanes.h"
#include "ops/channel_blocks.h"

namespace trireme {

// What follows the normalisation. The gradient reads the slope off the result, and inplace_abn
// reads the argument off it too.
struct NormActivation {
  enum class Kind { identity, relu, leaky_relu, elu };
  Kind kind = Kind::identity;
  double alpha = 0;

  template <class T>
  T apply(T x) const {
    if (kind == Kind::identity || x > 0) return x;
    if (kind == Kind::relu) return T{0};
    return static_cast<T>(alpha) * (kind == Kind::elu ? std::expm1(x) : x);
  }
  template <class T>
  T slope(T y) const {
    if (kind == Kind::identity || y > 0) return T{1};
    if (kind == Kind::relu) return T{0};
    return static_cast<T>(alpha) + (kind == Kind::elu ? y : T{0});
  }
  template <class T>
  T argument(T y) const {  // not of relu
    if (kind == Kind::identity || y > 0) return y;
    const T scaled = y / static_cast<T>(alpha);
    return kind == Kind::elu ? std::log1p(scaled) : scaled;
  }
};

// A row without the attribute has its channels last.
inline bool channel_last(const OpView& op) {
  return !op.schema().find_attribute("data_layout") ||
         op.attr<std::string>("data_layout") == "NHWC";
}

inline ChannelPlanes norm_planes(const OpView& op, const Shape& shape) {
  const int64_t block = channel_blocks(op).image;
  return block ? ChannelPlanes::in_blocks(shape, block) : ChannelPlanes(shape, channel_last(op));
}

// Statistics come from the batch, unless they are to be taken as they are.
inline bool uses_kept_statistics(const OpView& op) {
  if (!op.schema().find_attribute("is_test")) return false;
  const bool test = op.attr<bool>("is_test") && !op.attr<bool>("trainable_statistics");
  return test || op.attr<bool>("use_global_stats");
}

inline void batch_norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() < 2 || x.shape.rank() > 5) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions ", x.shape, " but 2 to 5 are needed"))
        .fix("give X the shape [batch, channels] or [batch, channels, spatial...]");
  }
  const int64_t block = channel_blocks(op).image;
  const Dim channels =
      block ? x.shape[1] * Dim(block) : x.shape[channel_last(op) ? x.shape.rank() - 1 : 1];
  Dim known = channels;
  for (const char* slot : {"Scale", "Bias", "Mean", "Variance"}) {
    const Dim given = op.in(slot).shape.numel();
    if (!given.may_equal(channels)) {
      throw op.error(cat(slot, " has ", given, " numbers but X has ", channels, " channels"))
          .fix(cat("give ", slot, " the shape [", channels, "], or check data_layout"));
    }
    known = Dim::join(known, given);
  }
  if (op.schema().find_input("Z")) {
    const ValueInfo& z = op.in("Z");
    for (int i = 0; i < x.shape.rank(); ++i) {
      if (z.shape.rank() == x.shape.rank() && z.shape[i].may_equal(x.shape[i])) continue;
      throw op.error(cat("Z has shape ", z.shape, " but X has ", x.shape)).fix("add equal shapes");
    }
  }
  op.set_out_like("Y", x);
  for (const char* slot : {"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"}) {
    op.set_out(slot, op.in("Scale").dtype, Shape{known});
  }
  op.set_out("ReserveSpace", x.dtype, Shape{0});
}

// Slots, attributes and shapes of batch_norm and sync_batch_norm.
OpSchema& batch_norm_slots(OpSchema& row);
// Its parts, for rows that have other slots between them: Scale to Variance; Y to SavedVariance
// with what says how they are computed; what rows with the attribute is_test have beside these.
OpSchema& batch_norm_parameters(OpSchema& row);
OpSchema& batch_norm_results(OpSchema& row);
OpSchema& batch_norm_switches(OpSchema& row);
inline constexpr const char* kNormalised =
    "[batch, channels], or with spatial dimensions in data_layout";

// Of MomentumTensor, in either spelling; -1 where the row or the op has none.
inline int momentum_position(const KernelSite& site) {
  for (const char* slot : {"MomentumTensor", "MomemtumTensor"}) {
    if (site.schema().find_input(slot) && site.has(slot)) return site.position(slot);
  }
  return -1;
}

struct NormPositions {
  int x, z, scale, bias, mean, variance, momentum;
  int y, mean_out, variance_out, saved_mean, saved_inverse;
  explicit NormPositions(const KernelSite& site)
      : x(site.position("X")),
        z(site.schema().find_input("Z") ? site.position("Z") : -1),
        scale(site.position("Scale")),
        bias(site.position("Bias")),
        mean(site.position("Mean")),
        variance(site.position("Variance")),
        momentum(momentum_position(site)),
        y(site.out_position("Y")),
        mean_out(site.out_position("MeanOut")),
        variance_out(site.out_position("VarianceOut")),
        saved_mean(site.out_position("SavedMean")),
        saved_inverse(site.out_position("SavedVariance")) {}
};

template <class T>
void write_channel(const KernelArgs& k, int position, int64_t c, double value) {
  if (k.has_out(position)) k.out<T>(position)[c] = static_cast<T>(value);
}

// How one op uses statistics.
struct NormUse {
  bool kept = false;    // the kept ones, not the batch's
  bool passes = false;  // one element per channel cannot be normalised: it passes as it is, as in
                        // the original, and leaves the statistics alone
  double epsilon = 0, momentum = 0;

  NormUse(const KernelSite& site, const ChannelPlanes& planes)
      : kept(uses_kept_statistics(site)),
        passes(!kept && planes.batch * planes.pixels == 1),
        epsilon(site.attr<float>("epsilon")),
        momentum(site.attr<float>("momentum")) {}
  bool measures(int64_t count) const { return !kept && !passes && count > 0; }
};

// y = (x - shift) * factor + add.
template <class T>
struct NormLine {
  T shift, factor, add;
};

// Writes what is known of a channel once the batch is measured. SavedMean and SavedVariance are
// what the gradient normalises by: the mean, and one over the standard deviation.
template <class T>
NormLine<T> settle_channel(const KernelArgs& k, const NormPositions& at, const NormUse& use,
                           int64_t c, const Moments* measured) {
  const double momentum =
      k.has_in(at.momentum) ? element_as_double(k.in(at.momentum), 0) : use.momentum;
  const double old_mean = k.in<T>(at.mean)[c], old_variance = k.in<T>(at.variance)[c];
  Moments used{old_mean, old_variance};
  Moments next = used;
  double scale = k.in<T>(at.scale)[c], bias = k.in<T>(at.bias)[c];
  if (measured) {
    used = *measured;
    next.mean = old_mean * momentum + used.mean * (1 - momentum);
    next.variance = old_variance * momentum + used.variance * (1 - momentum);
  }
  double inverse = 1 / std::sqrt(used.variance + use.epsilon);
  if (use.passes) {
    used.mean = bias = 0;
    inverse = scale = 1;
  }
  write_channel<T>(k, at.mean_out, c, next.mean);
  write_channel<T>(k, at.variance_out, c, next.variance);
  write_channel<T>(k, at.saved_mean, c, used.mean);
  write_channel<T>(k, at.saved_inverse, c, inverse);
  return {static_cast<T>(used.mean), static_cast<T>(inverse * scale), static_cast<T>(bias)};
}

inline BoundKernel batch_norm_lanes(const KernelSite& site, const ChannelPlanes& planes) {
  return BoundKernel(
      [=, at = NormPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const float* x = k.in<float>(at.x);
        const auto [begin, end] = k.range(lane_groups(planes));
        for (int64_t group = begin; group < end; ++group) {
          const LaneStrip strip = lane_strip(planes, group);
          const bool measures = use.measures(strip.count());
          Moments found[kLanes];
          if (measures) lane_moments(strip, x, found);
          float shift[kLanes], factor[kLanes], add[kLanes];
          for (int64_t l = 0; l < strip.lanes; ++l) {
            const auto line = settle_channel<float>(k, at, use, strip.channel + l,
                                                    measures ? &found[l] : nullptr);
            shift[l] = line.shift;
            factor[l] = line.factor;
            add[l] = line.add;
          }
          lane_normalise(strip, x, shift, factor, add, k.out<float>(at.y));
        }
      },
      norm_parts(lane_groups(planes), planes.size()));
}

template <class T>
BoundKernel batch_norm(const KernelSite& site, const NormActivation& act) {
  const ChannelPlanes planes = norm_planes(site, site.in("X").shape);
  const bool plain = act.kind == NormActivation::Kind::identity;
  if (std::is_same_v<T, float> && plain && planes.step() > 1) return batch_norm_lanes(site, planes);
  promise(planes.block == 0, "only float32 images stand in blocks");
  return BoundKernel(
      [=, at = NormPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const T* x = k.in<T>(at.x);
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          const Strip strip = planes.channel(c);
          const bool measures = use.measures(strip.count());
          const Moments found = measures ? moments(strip, x) : Moments{};
          const auto [shift, factor, add] =
              settle_channel<T>(k, at, use, c, measures ? &found : nullptr);
          T* y = k.out<T>(at.y);
          if (!plain) {
            const T* z = at.z >= 0 ? k.in<T>(at.z) : nullptr;
            strip.each([&, shift = shift, factor = factor, add = add](int64_t i) {
              y[i] = act.apply((x[i] - shift) * factor + add + (z ? z[i] : T{0}));
            });
            continue;
          }
          vectorised([=, shift = shift, factor = factor, add = add] {
            strip.runs([=](int64_t first, int64_t n) {
              for (int64_t i = first; i < first + n; ++i) y[i] = (x[i] - shift) * factor + add;
            });
          });
        }
      },
      norm_parts(planes.channels, planes.size()));
}

inline BoundKernel batch_norm_lanes_grad(const KernelSite& site, const ChannelPlanes& planes) {
  const int x_at = site.position("X"), scale_at = site.position("Scale"),
            mean_at = site.position("SavedMean"), inverse_at = site.position("SavedVariance"),
            grad_at = site.position("Y@GRAD");
  const int x_grad_at = site.out_position("X@GRAD"),
            scale_grad_at = site.out_position("Scale@GRAD"),
            bias_grad_at = site.out_position("Bias@GRAD");
  return BoundKernel(
      [=, use = NormUse(site, planes)](const KernelArgs& k) {
        const float *x = k.in<float>(x_at), *grad = k.in<float>(grad_at);
        const auto [begin, end] = k.range(lane_groups(planes));
        for (int64_t group = begin; group < end; ++group) {
          const LaneStrip strip = lane_strip(planes, group);
          const float* mean = k.in<float>(mean_at) + strip.channel;
          const float* inverse = k.in<float>(inverse_at) + strip.channel;
          double sums[kLanes] = {}, weighted[kLanes] = {};
          lane_grad_sums(strip, x, grad, mean, inverse, sums, weighted);
          float factor[kLanes], mean_grad[kLanes] = {}, tilt[kLanes] = {};
          const auto count = static_cast<double>(strip.count());
          for (int64_t l = 0; l < strip.lanes; ++l) {
            const int64_t c = strip.channel + l;
            write_channel<float>(k, bias_grad_at, c, use.passes ? 0 : sums[l]);
            write_channel<float>(k, scale_grad_at, c, use.passes ? 0 : weighted[l]);
            factor[l] = use.passes ? 1.0f : k.in<float>(scale_at)[c] * inverse[l];
            if (use.kept || use.passes) continue;  // the batch did not make the statistics
            mean_grad[l] = static_cast<float>(sums[l] / count);
            tilt[l] = static_cast<float>(weighted[l] / count) * inverse[l];
          }
          if (!k.has_out(x_grad_at)) continue;
          lane_x_grad(strip, x, grad, mean, factor, mean_grad, tilt, k.out<float>(x_grad_at));
        }
      },
      norm_parts(lane_groups(planes), planes.size()));
}

// With xhat = (x - mean) * inverse: Bias@GRAD = sum(dy), Scale@GRAD = sum(dy * xhat), and where the
// batch made its own statistics, dx = scale * inverse * (dy - mean(dy) - xhat * mean(dy * xhat)).
// Where X is not there, xhat is read off Y: (argument of the activation - bias) / scale.
template <class T>
BoundKernel batch_norm_grad(const KernelSite& site, const NormActivation& act, bool has_x) {
  const ChannelPlanes planes = norm_planes(site, site.in("Y@GRAD").shape);
  const bool plain = act.kind == NormActivation::Kind::identity;
  if (std::is_same_v<T, float> && plain && has_x && planes.step() > 1) {
    return batch_norm_lanes_grad(site, planes);
  }
  promise(planes.block == 0, "only float32 images stand in blocks");
  const NormUse use(site, planes);
  const bool kept = use.kept, passed = use.passes;
  const int x_at = has_x ? site.position("X") : -1, scale_at = site.position("Scale"),
            bias_at = site.position("Bias"), mean_at = site.position("SavedMean"),
            inverse_at = site.position("SavedVariance"), grad_at = site.position("Y@GRAD");
  const int y_at = plain && has_x ? -1 : site.position("Y");
  const int x_grad_at = site.out_position("X@GRAD"),
            scale_grad_at = site.out_position("Scale@GRAD"),
            bias_grad_at = site.out_position("Bias@GRAD"),
            z_grad_at = site.schema().find_output("Z@GRAD") ? site.out_position("Z@GRAD") : -1;
  return BoundKernel(
      [=](const KernelArgs& k) {
        const T* x = has_x ? k.in<T>(x_at) : nullptr;
        const T* y = y_at >= 0 ? k.in<T>(y_at) : nullptr;
        const T* grad = k.in<T>(grad_at);
        T* x_grad = k.has_out(x_grad_at) ? k.out<T>(x_grad_at) : nullptr;
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          const Strip strip = planes.channel(c);
          const T mean = k.in<T>(mean_at)[c], inverse = k.in<T>(inverse_at)[c],
                  scale = k.in<T>(scale_at)[c];
          const T bias = has_x ? T{0} : k.in<T>(bias_at)[c];
          // normal(i): xhat; arriving(i): the gradient behind the activation.
          const auto run = [=](auto normal, auto arriving) {
            const double sum =
                strip_sum<T>(strip, [=](int64_t i) { return static_cast<double>(arriving(i)); });
            const double weighted = strip_sum<T>(strip, [=](int64_t i) {
              return static_cast<double>(arriving(i)) * static_cast<double>(normal(i));
            });
            if (z_grad_at >= 0 && k.has_out(z_grad_at)) {
              T* z_grad = k.out<T>(z_grad_at);
              strip.each([=](int64_t i) { z_grad[i] = arriving(i); });
            }
            write_channel<T>(k, bias_grad_at, c, passed ? 0 : sum);
            write_channel<T>(k, scale_grad_at, c, passed ? 0 : weighted);
            if (!x_grad) return;
            const T factor = passed ? T(1) : scale * inverse;
            const bool own = !kept && !passed;  // the batch made its own statistics
            const auto count = static_cast<double>(strip.count());
            const auto mean_grad = static_cast<T>(sum / count);
            const auto mean_weighted = static_cast<T>(weighted / count);
            vectorised([=] {
              strip.runs([=](int64_t first, int64_t n) {
                for (int64_t i = first; i < first + n; ++i) {
                  const T arrived = arriving(i);
                  x_grad[i] = own ? factor * (arrived - mean_grad - normal(i) * mean_weighted)
                                  : arrived * factor;
                }
              });
            });
          };
          if (plain && has_x) {
            run([=](int64_t i) { return (x[i] - mean) * inverse; },
                [=](int64_t i) { return grad[i]; });
          } else {
            run(
                [=](int64_t i) {
                  return x ? (x[i] - mean) * inverse : (act.argument(y[i]) - bias) / scale;
                },
                [=](int64_t i) { return plain ? grad[i] : grad[i] * act.slope(y[i]); });
          }
        }
      },
      norm_parts(planes.channels, planes.size()));
}

// Operands of the generated tests.
inline OpSample batch_norm_sample(Draw& d, const Shape& x, int64_t channels, Attrs attrs) {
  return {.inputs = {{"X", {d.uniform(x)}},
                     {"Scale", {d.uniform({channels}, 0.5, 1.5)}},
                     {"Bias", {d.uniform({channels})}},
                     {"Mean", {d.uniform({channels})}},
                     {"Variance", {d.uniform({channels}, 0.5, 1.5)}}},
          .attrs = std::move(attrs)};
}

}  // namespace trireme
