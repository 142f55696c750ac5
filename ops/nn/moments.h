// What normalising ops share: sets of elements, their moments, optional parameters, gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cpu/vectorised.h"
#include "ir/kernel.h"
#include "ir/sample.h"

namespace trireme {

// `outer` runs of `inner` neighbours, `outer_step` apart.
struct Strip {
  int64_t first = 0;
  int64_t outer = 1, outer_step = 0;
  int64_t inner = 0;

  int64_t count() const { return outer * inner; }
  template <class Visit>
  void each(const Visit& visit) const {
    for (int64_t i = 0; i < outer; ++i) {
      const int64_t begin = first + i * outer_step;
      for (int64_t at = begin; at < begin + inner; ++at) visit(at);
    }
  }
  // visit(first, count) for each run of neighbours.
  template <class Visit>
  void runs(const Visit& visit) const {
    for (int64_t i = 0; i < outer; ++i) visit(first + i * outer_step, inner);
  }
};

// The sum of term(at) over a strip. In float32 sixteen sums run side by side and are added up at
// the end, always in the same order; float64 is the oracle and goes one by one.
template <class T, class Term>
double strip_sum(const Strip& strip, const Term& term) {
  double sum = 0;
  if constexpr (std::is_same_v<T, float>) {
    vectorised([&] {
      constexpr int64_t kLanes = 16;
      double lanes[kLanes] = {};
      strip.runs([&](int64_t at, int64_t count) {
        int64_t i = 0;
        for (; i + kLanes <= count; i += kLanes) {
          for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(at + i + lane);
        }
        for (; i < count; ++i) lanes[i % kLanes] += term(at + i);
      });
      for (int64_t half = kLanes / 2; half > 0; half /= 2) {
        for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
      }
      sum = lanes[0];
    });
  } else {
    strip.each([&](int64_t at) { sum += term(at); });
  }
  return sum;
}

struct Moments {
  double mean = 0, variance = 0;
};

// Two sweeps, summed in double: deviations from the true mean do not cancel as squares would.
template <class T>
Moments moments(const Strip& strip, const T* x) {
  const auto count = static_cast<double>(strip.count());
  Moments found;
  found.mean = strip_sum<T>(strip, [x](int64_t at) { return static_cast<double>(x[at]); }) / count;
  const auto squared = [x, mean = found.mean](int64_t at) {
    const double deviation = static_cast<double>(x[at]) - mean;
    return deviation * deviation;
  };
  found.variance = strip_sum<T>(strip, squared) / count;
  return found;
}

// An image tensor as batch, channels and pixels. With NCHW the channels are dimension 1, with NHWC
// the last; two dimensions are batch and channels.
struct ChannelPlanes {
  int64_t batch = 0, channels = 0, pixels = 0;
  bool channel_last = false;
  int64_t block = 0;  // not 0: channels in blocks (channel_blocks.h)

  ChannelPlanes() = default;
  ChannelPlanes(const Shape& shape, bool last)
      : batch(shape.at(0)),
        channels(shape.at(last ? shape.rank() - 1 : 1)),
        pixels(last ? shape.product(1, shape.rank() - 1).value()
                    : shape.product(2, shape.rank()).value()),
        channel_last(last) {}
  static ChannelPlanes in_blocks(const Shape& shape, int64_t block) {
    ChannelPlanes made;
    made.batch = shape.at(0);
    made.channels = shape.at(1) * block;
    made.pixels = shape.product(2, shape.rank() - 1).value();
    made.block = block;
    return made;
  }

  int64_t size() const { return batch * channels * pixels; }
  // How many channels stand side by side at each pixel.
  int64_t step() const { return block ? block : channel_last ? channels : 1; }
  // One channel of the whole batch.
  Strip channel(int64_t c) const {
    if (channel_last) {
      return {.first = c, .outer = batch * pixels, .outer_step = channels, .inner = 1};
    }
    return {.first = c * pixels, .outer = batch, .outer_step = channels * pixels, .inner = pixels};
  }
  // Channels [from, from + width) of sample n.
  Strip sample(int64_t n, int64_t from, int64_t width) const {
    const int64_t first = n * channels * pixels;
    if (channel_last) {
      return {.first = first + from, .outer = pixels, .outer_step = channels, .inner = width};
    }
    return {.first = first + from * pixels, .inner = width * pixels};
  }
};

// Refuses a parameter that has not `wanted` numbers; an absent one is fine.
inline void check_parameter(const OpView& op, std::string_view slot, Dim wanted,
                            std::string_view what) {
  if (!op.has(slot)) return;
  const Dim given = op.in(slot).shape.numel();
  if (given.may_equal(wanted)) return;
  throw op.error(cat(slot, " has ", given, " numbers but there are ", wanted, " ", what))
      .fix(cat("give ", slot, " the shape [", wanted, "]"));
}

inline double inverse_of(double variance, double epsilon) {
  return 1 / std::sqrt(variance + epsilon);
}

// A parameter that may be absent: then it changes nothing.
template <class T>
struct Parameter {
  const T* values;
  T absent;
  Parameter(const KernelArgs& k, int position, T absent)
      : values(k.has_in(position) ? k.in<T>(position) : nullptr), absent(absent) {}
  T operator[](int64_t i) const { return values ? values[i] : absent; }
};

// Into how many parts `pieces` of work over `elements` may be cut, by shape alone.
inline int norm_parts(int64_t pieces, int64_t elements) {
  constexpr int64_t kElementsPerPart = 16384;
  return static_cast<int>(
      std::clamp<int64_t>(std::min(elements / kElementsPerPart, pieces), 1, 64));
}

// Random X, with Scale and Bias of so many `parameters`; 0: without them.
inline OpSample norm_sample(Draw& d, const Shape& x, int64_t parameters, Attrs attrs) {
  OpSample made{.inputs = {{"X", {d.uniform(x)}}}, .attrs = std::move(attrs)};
  if (parameters > 0) {
    made.inputs["Scale"] = {d.uniform({parameters}, 0.5, 1.5)};
    made.inputs["Bias"] = {d.uniform({parameters})};
  }
  return made;
}

}  // namespace trireme
