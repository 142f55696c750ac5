// What every kernel of batch normalisation does alike: where operands are, what a measured channel
// leaves behind, and the arithmetic behind and before the activation.
#pragma once

#include "ops/nn/batch_norm.h"

namespace trireme {

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

}  // namespace trireme
