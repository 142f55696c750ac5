// Batch normalisation of float32 images whose channels stand side by side.
#pragma once

#include "cpu/lanes.h"
#include "ops/nn/moments.h"

namespace trireme {

// Channels of the whole batch that stand side by side: `outer` images, `outer_step` apart, of
// `pixels`, `step` apart.
struct LaneStrip {
  int64_t first = 0, channel = 0, lanes = 0;
  int64_t outer = 0, outer_step = 0, pixels = 0, step = 0;

  int64_t count() const { return outer * pixels; }

  // visit(first element, pixels) for chunks short enough that float32 sums over them lose
  // nothing that matters and that a second look finds them in the nearest cache.
  template <class Visit>
  void chunks(const Visit& visit) const {
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

// A number of each lane, in a place that nothing else can point into: the loops below need not look
// it up again after each store.
struct LaneNumbers {
  alignas(64) float at[kLanes] = {};
  LaneNumbers() = default;
  LaneNumbers(const float* from, int64_t lanes) { std::copy_n(from, lanes, at); }
  float operator[](int64_t lane) const { return at[lane]; }
  float& operator[](int64_t lane) { return at[lane]; }
};

// Two sums of each lane over the pixels of a chunk, term(element, lane) being what a pixel adds.
// Four pixels are added up among themselves first: sums that wait for each other are slow.
struct LaneTerm {
  float first, second;
};
template <class Lanes, class Term>
void add_chunk(Lanes lanes, int64_t step, int64_t at, int64_t pixels, const Term& term,
               LaneNumbers& first, LaneNumbers& second) {
  int64_t p = 0;
  for (; p + 4 <= pixels; p += 4, at += 4 * step) {
    for (int64_t l = 0; l < lanes; ++l) {
      const LaneTerm a = term(at + l, l), b = term(at + step + l, l),
                     c = term(at + 2 * step + l, l), d = term(at + 3 * step + l, l);
      first[l] += (a.first + b.first) + (c.first + d.first);
      second[l] += (a.second + b.second) + (c.second + d.second);
    }
  }
  for (; p < pixels; ++p, at += step) {
    for (int64_t l = 0; l < lanes; ++l) {
      const LaneTerm a = term(at + l, l);
      first[l] += a.first;
      second[l] += a.second;
    }
  }
}

// Mean and variance of each lane. A chunk's deviations are taken from its own mean and the
// chunks joined in double, so that nothing cancels.
inline void lane_moments(const LaneStrip& strip, const float* x, Moments* found) {
  double mean[kLanes] = {}, squares[kLanes] = {};
  double before = 0;
  with_lanes(strip.lanes, [&](auto lanes) {
    strip.chunks([&](int64_t at, int64_t pixels) {
      LaneNumbers middle, sum, square;
      int64_t p = 0;
      for (; p + 4 <= pixels; p += 4) {
        const float* from = x + at + p * strip.step;
        for (int64_t l = 0; l < lanes; ++l) {
          middle[l] += (from[l] + from[strip.step + l]) +
                       (from[2 * strip.step + l] + from[3 * strip.step + l]);
        }
      }
      for (; p < pixels; ++p) {
        for (int64_t l = 0; l < lanes; ++l) middle[l] += x[at + p * strip.step + l];
      }
      const float share = 1.0f / static_cast<float>(pixels);
      for (int64_t l = 0; l < lanes; ++l) middle[l] *= share;
      const auto deviation = [&](int64_t i, int64_t l) {
        const float off = x[i] - middle[l];
        return LaneTerm{off, off * off};
      };
      add_chunk(lanes, strip.step, at, pixels, deviation, sum, square);
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

// to[element] = make(element, lane) for the pixels of a chunk.
template <class Lanes, class Make>
void write_stretch(Lanes lanes, int64_t step, int64_t at, int64_t pixels, const Make& make,
                   float* to) {
  for (int64_t p = 0; p < pixels; ++p, at += step) {
    float made[kLanes];  // first all, then stored: `to` may be what is read for all that is known
    for (int64_t l = 0; l < lanes; ++l) made[l] = make(at + l, l);
    for (int64_t l = 0; l < lanes; ++l) to[at + l] = made[l];
  }
}

// y = finish((x - shift) * factor + add, element), lane by lane.
template <class Finish>
void lane_normalise(const LaneStrip& strip, const float* x, const float* shift, const float* factor,
                    const float* add, const Finish& finish, float* y) {
  with_lanes(strip.lanes, [&](auto lanes) {
    const LaneNumbers shifts(shift, lanes), factors(factor, lanes), adds(add, lanes);
    strip.chunks([&](int64_t at, int64_t pixels) {
      const auto make = [&](int64_t i, int64_t l) {
        return finish((x[i] - shifts[l]) * factors[l] + adds[l], i);
      };
      write_stretch(lanes, strip.step, at, pixels, make, y);
    });
  });
}

// What the gradient's loops know of each lane. grad = arriving(element, what was normalised), the
// latter being (x - mean) * factor + add.
struct LaneLines {
  const float *mean, *inverse, *factor, *add;
};

// sum(grad) and sum(grad * xhat) of each lane, with xhat = (x - mean) * inverse. Writes grad to
// `kept` where there is one.
template <class Arriving>
void lane_grad_sums(const LaneStrip& strip, const float* x, const LaneLines& line,
                    const Arriving& arriving, float* kept, double* sums, double* weighted) {
  with_lanes(strip.lanes, [&](auto lanes) {
    const LaneNumbers means(line.mean, lanes), factors(line.factor, lanes), adds(line.add, lanes);
    const auto made = [&](int64_t i, int64_t l) {
      return arriving(i, (x[i] - means[l]) * factors[l] + adds[l]);
    };
    const auto add = [&](int64_t at, int64_t pixels, const auto& grad) {
      LaneNumbers sum, product;
      const auto term = [&](int64_t i, int64_t l) {
        const float arrived = grad(i, l);
        return LaneTerm{arrived, arrived * (x[i] - means[l])};
      };
      add_chunk(lanes, strip.step, at, pixels, term, sum, product);
      for (int64_t l = 0; l < lanes; ++l) {
        sums[l] += static_cast<double>(sum[l]);
        weighted[l] += static_cast<double>(product[l]) * static_cast<double>(line.inverse[l]);
      }
    };
    strip.chunks([&](int64_t at, int64_t pixels) {
      if (!kept) return add(at, pixels, made);
      write_stretch(lanes, strip.step, at, pixels, made, kept);
      add(at, pixels, [&](int64_t i, int64_t) { return kept[i]; });
    });
  });
}

// x_grad = factor * (grad - mean_grad - (x - mean) * tilt), lane by lane.
template <class Arriving>
void lane_x_grad(const LaneStrip& strip, const float* x, const LaneLines& line,
                 const float* mean_grad, const float* tilt, const Arriving& arriving,
                 float* x_grad) {
  with_lanes(strip.lanes, [&](auto lanes) {
    const LaneNumbers means(line.mean, lanes), factors(line.factor, lanes), adds(line.add, lanes),
        mean_grads(mean_grad, lanes), tilts(tilt, lanes);
    strip.chunks([&](int64_t at, int64_t pixels) {
      const auto make = [&](int64_t i, int64_t l) {
        const float centred = x[i] - means[l];
        const float grad = arriving(i, centred * factors[l] + adds[l]);
        return factors[l] * (grad - mean_grads[l] - centred * tilts[l]);
      };
      write_stretch(lanes, strip.step, at, pixels, make, x_grad);
    });
  });
}

}  // namespace trireme
