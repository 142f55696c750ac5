// The kernel of batch normalisation: statistics, then one pass that normalises, adds and activates.
#include "cpu/kernels/batch_norm_lanes.h"
#include "ops/nn/batch_norm.h"

namespace trireme {
namespace {

// Of MomentumTensor, in either spelling; -1 where the row or the op has none.
int momentum_position(const KernelSite& site) {
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

// y = (x - shift) * factor + add.
template <class T>
struct NormLine {
  T shift, factor, add;
};

// Writes what is known of a channel once the batch is measured. SavedMean and SavedVariance are
// what the gradient normalises by: the mean, and one over the standard deviation. The factor is
// made of what is saved, so that the gradient can make it again to the bit.
template <class T>
NormLine<T> settle_channel(const KernelArgs& k, const NormPositions& at, const NormUse& use,
                           int64_t c, const Moments* measured) {
  const double momentum =
      k.has_in(at.momentum) ? element_as_double(k.in(at.momentum), 0) : use.momentum;
  const double old_mean = k.in<T>(at.mean)[c], old_variance = k.in<T>(at.variance)[c];
  Moments used{old_mean, old_variance};
  Moments next = used;
  T scale = k.in<T>(at.scale)[c], bias = k.in<T>(at.bias)[c];
  if (measured) {
    used = *measured;
    next.mean = old_mean * momentum + used.mean * (1 - momentum);
    next.variance = old_variance * momentum + used.variance * (1 - momentum);
  }
  double inverse = 1 / std::sqrt(used.variance + use.epsilon);
  if (use.passes) {
    used.mean = 0;
    inverse = 1;
    bias = 0;
    scale = 1;
  }
  write_channel<T>(k, at.mean_out, c, next.mean);
  write_channel<T>(k, at.variance_out, c, next.variance);
  write_channel<T>(k, at.saved_mean, c, used.mean);
  write_channel<T>(k, at.saved_inverse, c, inverse);
  return {static_cast<T>(used.mean), scale * static_cast<T>(inverse), bias};
}

// work(finish): finish(value, i) makes element i of the result of what was normalised. Each step
// rounds as the op of its own does.
template <class T, class Work>
void with_finish(const NormActivation& act, const T* z, const Work& work) {
  using Kind = NormActivation::Kind;
  const auto relu = [](T value) { return value > 0 ? value : T{0}; };
  if (act.kind == Kind::identity) {
    work([](T value, int64_t) { return value; });
  } else if (act.kind == Kind::relu && z) {
    work([=](T value, int64_t i) { return relu(value + z[i]); });
  } else if (act.kind == Kind::relu) {
    work([=](T value, int64_t) { return relu(value); });
  } else {
    work([act](T value, int64_t) { return act.apply(value); });
  }
}

BoundKernel batch_norm_lanes(const KernelSite& site, const ChannelPlanes& planes,
                             const NormActivation& act) {
  return BoundKernel(
      [=, at = NormPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const float* x = k.in<float>(at.x);
        const float* z = k.has_in(at.z) ? k.in<float>(at.z) : nullptr;
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
          with_finish<float>(act, z, [&](const auto& finish) {
            lane_normalise(strip, x, shift, factor, add, finish, k.out<float>(at.y));
          });
        }
      },
      norm_parts(lane_groups(planes), planes.size()));
}

}  // namespace

template <class T>
BoundKernel batch_norm(const KernelSite& site, const NormActivation& act) {
  const ChannelPlanes planes = norm_planes(site, site.in("X").shape);
  if (std::is_same_v<T, float> && planes.step() > 1) return batch_norm_lanes(site, planes, act);
  promise(planes.block == 0, "only float32 images stand in blocks");
  return BoundKernel(
      [=, at = NormPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const T* x = k.in<T>(at.x);
        const T* z = k.has_in(at.z) ? k.in<T>(at.z) : nullptr;
        T* y = k.out<T>(at.y);
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          const Strip strip = planes.channel(c);
          const bool measures = use.measures(strip.count());
          const Moments found = measures ? moments(strip, x) : Moments{};
          const NormLine<T> line = settle_channel<T>(k, at, use, c, measures ? &found : nullptr);
          with_finish<T>(act, z, [&](const auto& finish) {
            vectorised([=] {
              strip.runs([=](int64_t first, int64_t n) {
                for (int64_t i = first; i < first + n; ++i) {
                  y[i] = finish((x[i] - line.shift) * line.factor + line.add, i);
                }
              });
            });
          });
        }
      },
      norm_parts(planes.channels, planes.size()));
}

template BoundKernel batch_norm<float>(const KernelSite&, const NormActivation&);
template BoundKernel batch_norm<double>(const KernelSite&, const NormActivation&);

}  // namespace trireme
