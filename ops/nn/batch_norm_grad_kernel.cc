// The reference kernel of batch normalisation's gradient, with what comes back through the
// activation.
//
// With xhat = (x - mean) * inverse: Bias@GRAD = sum(dy), Scale@GRAD = sum(dy * xhat), and where the
// batch made its own statistics, dx = scale * inverse * (dy - mean(dy) - xhat * mean(dy * xhat)).
// dy is what arrives behind the activation. It is made again wherever it is read, unless it is a
// result too (Z@GRAD): then it is written first.
#include "ops/nn/batch_norm_steps.h"

namespace trireme {
namespace {

// One channel. normal(i): xhat; arriving(i): the gradient behind the activation.
template <class T, class Normal, class Arriving>
void channel_grad(const KernelArgs& k, const NormGradPositions& at, const NormUse& use, int64_t c,
                  const Strip& strip, const Normal& normal, const Arriving& arriving) {
  const double sum =
      strip_sum<T>(strip, [=](int64_t i) { return static_cast<double>(arriving(i)); });
  const double weighted = strip_sum<T>(strip, [=](int64_t i) {
    return static_cast<double>(arriving(i)) * static_cast<double>(normal(i));
  });
  write_channel<T>(k, at.bias_grad, c, use.passes ? 0 : sum);
  write_channel<T>(k, at.scale_grad, c, use.passes ? 0 : weighted);
  T* x_grad = result_or_null<T>(k, at.x_grad);
  if (!x_grad) return;
  const T factor = use.passes ? T{1} : k.in<T>(at.scale)[c] * k.in<T>(at.inverse)[c];
  const bool own = !use.kept && !use.passes;  // the batch made its own statistics
  const auto count = static_cast<double>(strip.count());
  const auto mean_grad = static_cast<T>(sum / count);
  const auto mean_weighted = static_cast<T>(weighted / count);
  vectorised([=] {
    strip.runs([=](int64_t first, int64_t n) {
      for (int64_t i = first; i < first + n; ++i) {
        const T arrived = arriving(i);
        x_grad[i] =
            own ? factor * (arrived - mean_grad - normal(i) * mean_weighted) : arrived * factor;
      }
    });
  });
}

}  // namespace

template <class T>
BoundKernel batch_norm_grad(const KernelSite& site, const NormActivation& act) {
  const ChannelPlanes planes = norm_planes(site, site.in("Y@GRAD").shape);
  const NormGradPositions at(site);
  promise(planes.block == 0, "only float32 images stand in blocks");
  return BoundKernel(
      [=, use = NormUse(site, planes)](const KernelArgs& k) {
        const T* x = operand_or_null<T>(k, at.x);
        const T* y = operand_or_null<T>(k, at.y);
        T* masked = result_or_null<T>(k, at.z_grad);
        const NormArriving<T> from{k.in<T>(at.grad), operand_or_null<T>(k, at.more), y};
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          const Strip strip = planes.channel(c);
          const T mean = k.in<T>(at.mean)[c], inverse = k.in<T>(at.inverse)[c],
                  scale = k.in<T>(at.scale)[c], bias = k.in<T>(at.bias)[c];
          const T factor = use.passes ? T{1} : scale * inverse, add = use.passes ? T{0} : bias;
          with_arriving(act, from, [&](const auto& behind) {
            if (!x) {
              return channel_grad<T>(
                  k, at, use, c, strip,
                  [=](int64_t i) { return (act.argument(y[i]) - bias) / scale; },
                  [=](int64_t i) { return behind(i, T{0}); });
            }
            const auto normal = [=](int64_t i) { return (x[i] - mean) * inverse; };
            const auto arriving = [=](int64_t i) {
              return behind(i, (x[i] - mean) * factor + add);
            };
            if (!masked) return channel_grad<T>(k, at, use, c, strip, normal, arriving);
            vectorised([=] {
              strip.runs([=](int64_t first, int64_t n) {
                for (int64_t i = first; i < first + n; ++i) masked[i] = arriving(i);
              });
            });
            channel_grad<T>(k, at, use, c, strip, normal, [=](int64_t i) { return masked[i]; });
          });
        }
      },
      norm_parts(planes.channels, planes.size()));
}

template BoundKernel batch_norm_grad<float>(const KernelSite&, const NormActivation&);
template BoundKernel batch_norm_grad<double>(const KernelSite&, const NormActivation&);

}  // namespace trireme
