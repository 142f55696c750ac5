// Batch normalisation of float32 images whose channels stand side by side.
#pragma once

#include "ops/lanes.h"
#include "ops/moments.h"

namespace trireme {

// Channels of the whole batch that stand side by side: `outer` images, `outer_step` apart, of
// `pixels`, `step` apart.
struct LaneStrip {
  int64_t first = 0, channel = 0, lanes = 0;
  int64_t outer = 0, outer_step = 0, pixels = 0, step = 0;

  int64_t count() const { return outer * pixels; }

  // visit(first element, pixels) for stretches short enough that float32 sums over them lose
  // nothing that matters and that a second look finds them in the nearest cache.
  template <class Visit>
  void stretches(const Visit& visit) const {
    constexpr int64_t kMost = 128;
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t p = 0; p < pixels; p += kMost) {
        visit(first + i * outer_step + p * step, std::min(kMost, pixels - p));
      }
    }
  }
};

inline int64_t lane_groups(const ChannelPlanes& planes) {
  return planes.channels / planes.step() * LaneGroups(planes.step()).per_block;
}

inline LaneStrip lane_strip(const ChannelPlanes& planes, int64_t index) {
  const LaneGroups groups(planes.step());
  const int64_t block = index / groups.per_block;
  const auto [channel, count] = groups.lanes(index % groups.per_block);
  return {.first = block * groups.step * planes.pixels + channel,
          .channel = block * groups.step + channel,
          .lanes = count,
          .outer = planes.batch,
          .outer_step = planes.channels * planes.pixels,
          .pixels = planes.pixels,
          .step = groups.step};
}

// Mean and variance of each lane. A stretch's deviations are taken from its own mean and the
// stretches joined in double, so that nothing cancels.
inline void lane_moments(const LaneStrip& strip, const float* x, Moments* found) {
  double mean[kLanes] = {}, squares[kLanes] = {};
  double before = 0;
  with_lanes(strip.lanes, [&](auto lanes) {
    strip.stretches([&](int64_t at, int64_t pixels) {
      float middle[kLanes] = {}, sum[kLanes] = {}, square[kLanes] = {};
      for (int64_t p = 0; p < pixels; ++p) {
        for (int64_t l = 0; l < lanes; ++l) middle[l] += x[at + p * strip.step + l];
      }
      const float share = 1.0f / static_cast<float>(pixels);
      for (int64_t l = 0; l < lanes; ++l) middle[l] *= share;
      for (int64_t p = 0; p < pixels; ++p) {
        for (int64_t l = 0; l < lanes; ++l) {
          const float deviation = x[at + p * strip.step + l] - middle[l];
          sum[l] += deviation;
          square[l] += deviation * deviation;
        }
      }
      const auto n = static_cast<double>(pixels), all = before + n;
      for (int64_t l = 0; l < lanes; ++l) {
        const double off = static_cast<double>(sum[l]) / n;
        const double apart = static_cast<double>(middle[l]) + off - mean[l];
        squares[l] +=
            static_cast<double>(square[l]) - off * off * n + apart * apart * (before * n / all);
        mean[l] += apart * (n / all);
      }
      before = all;
    });
  });
  for (int64_t l = 0; l < strip.lanes; ++l) {
    found[l] = {mean[l], std::max(squares[l], 0.0) / before};
  }
}

// y = finish((x - shift) * factor + add, element), lane by lane.
template <class Finish>
void lane_normalise(const LaneStrip& strip, const float* x, const float* shift, const float* factor,
                    const float* add, const Finish& finish, float* y) {
  with_lanes(strip.lanes, [&](auto lanes) {
    strip.stretches([&](int64_t at, int64_t pixels) {
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t i = at + p * strip.step;
        float made[kLanes];  // first all, then stored: y may be x for all that is known
        for (int64_t l = 0; l < lanes; ++l) {
          made[l] = finish((x[i + l] - shift[l]) * factor[l] + add[l], i + l);
        }
        for (int64_t l = 0; l < lanes; ++l) y[i + l] = made[l];
      }
    });
  });
}

// sum(grad) and sum(grad * xhat) of each lane, with grad = arriving(element, lane, x - mean) and
// xhat = (x - mean) * inverse. Writes grad to `kept` where there is one.
template <class Arriving>
void lane_grad_sums(const LaneStrip& strip, const float* x, const float* mean, const float* inverse,
                    const Arriving& arriving, float* kept, double* sums, double* weighted) {
  with_lanes(strip.lanes, [&](auto lanes) {
    strip.stretches([&](int64_t at, int64_t pixels) {
      float sum[kLanes] = {}, product[kLanes] = {};
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t i = at + p * strip.step;
        float grad[kLanes];
        for (int64_t l = 0; l < lanes; ++l) {
          const float centred = x[i + l] - mean[l];
          grad[l] = arriving(i + l, l, centred);
          sum[l] += grad[l];
          product[l] += grad[l] * centred;
        }
        if (!kept) continue;
        for (int64_t l = 0; l < lanes; ++l) kept[i + l] = grad[l];
      }
      for (int64_t l = 0; l < lanes; ++l) {
        sums[l] += static_cast<double>(sum[l]);
        weighted[l] += static_cast<double>(product[l]) * static_cast<double>(inverse[l]);
      }
    });
  });
}

// x_grad = factor * (grad - mean_grad - (x - mean) * tilt), lane by lane, with grad as above.
template <class Arriving>
void lane_x_grad(const LaneStrip& strip, const float* x, const float* mean, const float* factor,
                 const float* mean_grad, const float* tilt, const Arriving& arriving,
                 float* x_grad) {
  with_lanes(strip.lanes, [&](auto lanes) {
    strip.stretches([&](int64_t at, int64_t pixels) {
      for (int64_t p = 0; p < pixels; ++p) {
        const int64_t i = at + p * strip.step;
        float made[kLanes];
        for (int64_t l = 0; l < lanes; ++l) {
          const float centred = x[i + l] - mean[l];
          made[l] = factor[l] * (arriving(i + l, l, centred) - mean_grad[l] - centred * tilt[l]);
        }
        for (int64_t l = 0; l < lanes; ++l) x_grad[i + l] = made[l];
      }
    });
  });
}

}  // namespace trireme
