// The kernel of batch normalisation's gradient, with what comes back through the activation.
//
// With xhat = (x - mean) * inverse: Bias@GRAD = sum(dy), Scale@GRAD = sum(dy * xhat), and where the
// batch made its own statistics, dx = scale * inverse * (dy - mean(dy) - xhat * mean(dy * xhat)).
// dy is what arrives behind the activation. It is made again wherever it is read, unless it is a
// result too (Z@GRAD): then it is written first.
#include "cpu/kernels/batch_norm_lanes.h"
#include "ops/nn/batch_norm.h"

namespace trireme {
namespace {

struct NormGradPositions {
  int x, y, scale, bias, mean, inverse, grad, more;
  int x_grad, z_grad, scale_grad, bias_grad;
  explicit NormGradPositions(const KernelSite& site)
      : x(operand(site, "X")),
        y(operand(site, "Y")),
        scale(site.position("Scale")),
        bias(site.position("Bias")),
        mean(site.position("SavedMean")),
        inverse(site.position("SavedVariance")),
        grad(site.position("Y@GRAD")),
        more(site.count("Y@GRAD") > 1 ? site.position("Y@GRAD", 1) : -1),
        x_grad(site.out_position("X@GRAD")),
        z_grad(site.schema().find_output("Z@GRAD") ? site.out_position("Z@GRAD") : -1),
        scale_grad(site.out_position("Scale@GRAD")),
        bias_grad(site.out_position("Bias@GRAD")) {}
  static int operand(const KernelSite& site, std::string_view slot) {
    return site.schema().find_input(slot) ? site.position(slot) : -1;
  }
};

template <class T>
const T* operand_or_null(const KernelArgs& k, int position) {
  return k.has_in(position) ? k.in<T>(position) : nullptr;
}
template <class T>
T* result_or_null(const KernelArgs& k, int position) {
  return k.has_out(position) ? k.out<T>(position) : nullptr;
}

// What the gradient behind the activation is made of.
template <class T>
struct NormArriving {
  const T *grad, *more, *y;
};

// work(arriving): arriving(i, normalised) is the gradient behind the activation at element i, where
// what was normalised is as forwards, to the bit. Each step rounds as the op of its own does.
template <class T, class Work>
void with_arriving(const NormActivation& act, const NormArriving<T>& from, const Work& work) {
  using Kind = NormActivation::Kind;
  const auto behind_relu = [&](const auto& sum) {
    if (from.y) {
      work([=, y = from.y](int64_t i, T) {
        const T arrived = sum(i);
        return y[i] > 0 ? arrived : T{0};
      });
    } else {
      work([=](int64_t i, T normalised) {
        const T arrived = sum(i);
        return normalised > 0 ? arrived : T{0};
      });
    }
  };
  const auto one = [grad = from.grad](int64_t i) { return grad[i]; };
  if (act.kind == Kind::identity) {
    work([=](int64_t i, T) { return one(i); });
  } else if (act.kind != Kind::relu) {
    work([=, y = from.y](int64_t i, T) { return act.back(one(i), y[i]); });
  } else if (from.more) {
    behind_relu([=, more = from.more](int64_t i) { return one(i) + more[i]; });
  } else {
    behind_relu(one);
  }
}

BoundKernel batch_norm_lanes_grad(const KernelSite& site, const ChannelPlanes& planes,
                                  const NormActivation& act) {
  return BoundKernel(
      [=, at = NormGradPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const float* x = k.in<float>(at.x);
        float* masked = result_or_null<float>(k, at.z_grad);
        float* x_grad = result_or_null<float>(k, at.x_grad);
        const NormArriving<float> from{k.in<float>(at.grad), operand_or_null<float>(k, at.more),
                                       operand_or_null<float>(k, at.y)};
        const auto [begin, end] = k.range(lane_groups(planes));
        for (int64_t group = begin; group < end; ++group) {
          const LaneStrip strip = lane_strip(planes, group);
          const float* mean = k.in<float>(at.mean) + strip.channel;
          const float* inverse = k.in<float>(at.inverse) + strip.channel;
          float factor[kLanes], add[kLanes];
          for (int64_t l = 0; l < strip.lanes; ++l) {
            const int64_t c = strip.channel + l;
            factor[l] = use.passes ? 1.0f : k.in<float>(at.scale)[c] * inverse[l];
            add[l] = use.passes ? 0.0f : k.in<float>(at.bias)[c];
          }
          const LaneLines line{mean, inverse, factor, add};
          double sums[kLanes] = {}, weighted[kLanes] = {};
          with_arriving(act, from, [&](const auto& arriving) {
            lane_grad_sums(strip, x, line, arriving, masked, sums, weighted);
          });
          float mean_grad[kLanes] = {}, tilt[kLanes] = {};
          const auto count = static_cast<double>(strip.count());
          for (int64_t l = 0; l < strip.lanes; ++l) {
            const int64_t c = strip.channel + l;
            write_channel<float>(k, at.bias_grad, c, use.passes ? 0 : sums[l]);
            write_channel<float>(k, at.scale_grad, c, use.passes ? 0 : weighted[l]);
            if (use.kept || use.passes) continue;  // the batch did not make the statistics
            mean_grad[l] = static_cast<float>(sums[l] / count);
            tilt[l] = static_cast<float>(weighted[l] / count) * inverse[l];
          }
          if (!x_grad) continue;
          const auto write = [&](const auto& arriving) {
            lane_x_grad(strip, x, line, mean_grad, tilt, arriving, x_grad);
          };
          if (masked) {
            with_arriving<float>({}, {.grad = masked}, write);
          } else {
            with_arriving(act, from, write);
          }
        }
      },
      norm_parts(lane_groups(planes), planes.size()));
}

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
  if (std::is_same_v<T, float> && at.x >= 0 && planes.step() > 1) {
    return batch_norm_lanes_grad(site, planes, act);
  }
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
