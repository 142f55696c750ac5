// batch_norm: each channel normalised over the batch, or by the statistics kept while training.
#include <cmath>

#include "ir/schema.h"
#include "ops/moments.h"

namespace trireme {
namespace {

bool channel_last(const OpView& op) { return op.attr<std::string>("data_layout") == "NHWC"; }

// Statistics come from the batch, unless they are to be taken as they are.
bool uses_kept_statistics(const OpView& op) {
  const bool test = op.attr<bool>("is_test") && !op.attr<bool>("trainable_statistics");
  return test || op.attr<bool>("use_global_stats");
}

void batch_norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() < 2 || x.shape.rank() > 5) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions ", x.shape, " but 2 to 5 are needed"))
        .fix("give X the shape [batch, channels] or [batch, channels, spatial...]");
  }
  const Dim channels = x.shape[channel_last(op) ? x.shape.rank() - 1 : 1];
  Dim known = channels;
  for (const char* slot : {"Scale", "Bias", "Mean", "Variance"}) {
    const Dim given = op.in(slot).shape.numel();
    if (!given.may_equal(channels)) {
      throw op.error(cat(slot, " has ", given, " numbers but X has ", channels, " channels"))
          .fix(cat("give ", slot, " the shape [", channels, "], or check data_layout"));
    }
    known = Dim::join(known, given);
  }
  op.set_out_like("Y", x);
  for (const char* slot : {"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"}) {
    op.set_out(slot, op.in("Scale").dtype, Shape{known});
  }
  op.set_out("ReserveSpace", x.dtype, Shape{0});
}

struct Positions {
  int x, scale, bias, mean, variance, momentum;
  int y, mean_out, variance_out, saved_mean, saved_inverse;
  explicit Positions(const KernelSite& site)
      : x(site.position("X")),
        scale(site.position("Scale")),
        bias(site.position("Bias")),
        mean(site.position("Mean")),
        variance(site.position("Variance")),
        momentum(site.has("MomentumTensor") ? site.position("MomentumTensor")
                                            : site.position("MomemtumTensor")),
        y(site.out_position("Y")),
        mean_out(site.out_position("MeanOut")),
        variance_out(site.out_position("VarianceOut")),
        saved_mean(site.out_position("SavedMean")),
        saved_inverse(site.out_position("SavedVariance")) {}
};

template <class T>
void write(const KernelArgs& k, int position, int64_t c, double value) {
  if (k.has_out(position)) k.out<T>(position)[c] = static_cast<T>(value);
}

// SavedMean and SavedVariance are what the gradient normalises by: the mean, and one over the
// standard deviation. One element per channel cannot be normalised: it passes as it is, as in the
// original, and leaves the statistics alone.
template <class T>
BoundKernel batch_norm(const KernelSite& site) {
  const ChannelPlanes planes(site.in("X").shape, channel_last(site));
  const bool kept = uses_kept_statistics(site);
  const bool passes = !kept && planes.batch * planes.pixels == 1;
  const double epsilon = site.attr<float>("epsilon");
  const double momentum_attr = site.attr<float>("momentum");
  return BoundKernel(
      [=, at = Positions(site)](const KernelArgs& k) {
        const T* x = k.in<T>(at.x);
        const double momentum =
            k.has_in(at.momentum) ? element_as_double(k.in(at.momentum), 0) : momentum_attr;
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          const Strip strip = planes.channel(c);
          const double old_mean = k.in<T>(at.mean)[c], old_variance = k.in<T>(at.variance)[c];
          Moments used{old_mean, old_variance};
          Moments next = used;
          double scale = k.in<T>(at.scale)[c], bias = k.in<T>(at.bias)[c];
          double inverse = 0;
          if (passes) {
            used.mean = bias = 0;
            inverse = scale = 1;
          } else {
            if (!kept && strip.count() > 0) {
              used = moments(strip, x);
              next.mean = old_mean * momentum + used.mean * (1 - momentum);
              next.variance = old_variance * momentum + used.variance * (1 - momentum);
            }
            inverse = 1 / std::sqrt(used.variance + epsilon);
          }
          write<T>(k, at.mean_out, c, next.mean);
          write<T>(k, at.variance_out, c, next.variance);
          write<T>(k, at.saved_mean, c, used.mean);
          write<T>(k, at.saved_inverse, c, inverse);
          const auto shift = static_cast<T>(used.mean), factor = static_cast<T>(inverse * scale),
                     add = static_cast<T>(bias);
          T* y = k.out<T>(at.y);
          strip.each([&](int64_t i) { y[i] = (x[i] - shift) * factor + add; });
        }
      },
      norm_parts(planes.channels, planes.size()));
}

// With xhat = (x - mean) * inverse: Bias@GRAD = sum(dy), Scale@GRAD = sum(dy * xhat), and where the
// batch made its own statistics, dx = scale * inverse * (dy - mean(dy) - xhat * mean(dy * xhat)).
template <class T>
BoundKernel batch_norm_grad(const KernelSite& site) {
  const ChannelPlanes planes(site.in("X").shape, channel_last(site));
  const bool kept = uses_kept_statistics(site);
  const bool passed = !kept && planes.batch * planes.pixels == 1;
  const int x_at = site.position("X"), scale_at = site.position("Scale"),
            mean_at = site.position("SavedMean"), inverse_at = site.position("SavedVariance"),
            grad_at = site.position("Y@GRAD");
  const int x_grad_at = site.out_position("X@GRAD"),
            scale_grad_at = site.out_position("Scale@GRAD"),
            bias_grad_at = site.out_position("Bias@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const T* x = k.in<T>(x_at);
        const T* grad = k.in<T>(grad_at);
        T* x_grad = k.has_out(x_grad_at) ? k.out<T>(x_grad_at) : nullptr;
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          const Strip strip = planes.channel(c);
          const T mean = k.in<T>(mean_at)[c], inverse = k.in<T>(inverse_at)[c];
          double sum = 0, weighted = 0;
          strip.each([&](int64_t i) {
            sum += static_cast<double>(grad[i]);
            weighted += static_cast<double>(grad[i]) * static_cast<double>((x[i] - mean) * inverse);
          });
          write<T>(k, bias_grad_at, c, passed ? 0 : sum);
          write<T>(k, scale_grad_at, c, passed ? 0 : weighted);
          if (!x_grad) continue;
          const T factor = passed ? T(1) : k.in<T>(scale_at)[c] * inverse;
          if (kept || passed) {
            strip.each([&](int64_t i) { x_grad[i] = grad[i] * factor; });
          } else {
            const auto count = static_cast<double>(strip.count());
            const auto mean_grad = static_cast<T>(sum / count);
            const auto mean_weighted = static_cast<T>(weighted / count);
            strip.each([&](int64_t i) {
              const T normal = (x[i] - mean) * inverse;
              x_grad[i] = factor * (grad[i] - mean_grad - normal * mean_weighted);
            });
          }
        }
      },
      norm_parts(planes.channels, planes.size()));
}

OpSample sample_of(Draw& d, const Shape& x, int64_t channels, Attrs attrs) {
  return {.inputs = {{"X", {d.uniform(x)}},
                     {"Scale", {d.uniform({channels}, 0.5, 1.5)}},
                     {"Bias", {d.uniform({channels})}},
                     {"Mean", {d.uniform({channels})}},
                     {"Variance", {d.uniform({channels}, 0.5, 1.5)}}},
          .attrs = std::move(attrs)};
}

}  // namespace

void register_batch_norm(Registry& ops) {
  ops.op("batch_norm")
      .in("X", "[batch, channels], or with spatial dimensions in data_layout")
      .in("Scale", "[channels]: multiplies what is normalised")
      .in("Bias", "[channels]: is added to it")
      .in("Mean", "[channels]: the mean kept while training")
      .in("Variance", "[channels]: the variance kept while training")
      .in_optional("MomentumTensor", "[1]: used instead of the attribute momentum")
      .in_optional("MomemtumTensor", "MomentumTensor as the original's Python spells it")
      .in_optional("MeanOut", "MeanOut again, as 2.x names it among the inputs")
      .in_optional("VarianceOut", "VarianceOut again, as 2.x names it among the inputs")
      .out("Y", "like X")
      .out("MeanOut", "the variable Mean, updated")
      .out("VarianceOut", "the variable Variance, updated")
      .out_intermediate("SavedMean", "[channels]: the mean that was used")
      .out_intermediate("SavedVariance", "[channels]: one over the deviation that was used")
      .out_optional("ReserveSpace", "empty: nothing needs to be kept")
      .attr("is_test", false, "normalise by Mean and Variance")
      .attr("momentum", 0.9f, "what Mean and Variance keep of themselves in a step")
      .attr("epsilon", 1e-5f, "added to the variance")
      .between(0, 1e-3f)
      .attr("data_layout", "NCHW", "where the channels stand")
      .one_of({"NCHW", "NHWC", "AnyLayout"})
      .attr("use_global_stats", false, "normalise by Mean and Variance while training too")
      .attr("trainable_statistics", false, "is_test has no effect")
      .shape(batch_norm_shape)
      .inplace("Mean", "MeanOut")
      .inplace("Variance", "VarianceOut")
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return batch_norm<T>(site); }))
      .grad({"X", "Scale", "Bias", "SavedMean", "SavedVariance"})
      .grad_outs({"Y"})
      .no_grad({"Mean", "Variance", "MomentumTensor", "MomemtumTensor", "MeanOut", "VarianceOut"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return batch_norm_grad<T>(site); }))
      .sample([](Draw& d) {
        const int64_t c = d.size(1, 3);
        return sample_of(d, {3, c, 2, 3}, c, {});
      })
      .sample([](Draw& d) {
        return sample_of(d, {4, 2, 3}, 3, {{"data_layout", std::string("NHWC")}});
      })
      .sample([](Draw& d) {
        return sample_of(d, {5, 3}, 3, {});
      })
      .sample([](Draw& d) {
        return sample_of(d, {3, 2, 4}, 2, {{"use_global_stats", true}});
      });
}

}  // namespace trireme
