// Shared by reference kernels: choosing an element type, cutting work, walking strided operands.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "ir/kernel.h"
#include "ir/schema.h"

namespace trireme {

// Work is cut by its size alone, so that results do not depend on how many threads there are.
inline int parts_for(int64_t elements) {
  constexpr int64_t kGrain = 16384;
  return static_cast<int>(std::clamp<int64_t>(elements / kGrain, 1, 64));
}

// Makes a kernel for the type `dtype` out of `Ts`; declines any other.
template <class... Ts, class F>
std::optional<BoundKernel> for_dtype(DType dtype, std::string* why_not, F make) {
  std::optional<BoundKernel> made;
  const bool found =
      ((dtype == dtype_of<Ts> ? (made = BoundKernel(make.template operator()<Ts>()), true)
                              : false) ||
       ...);
  if (!found && why_not) *why_not = "no kernel for " + std::string(name_of(dtype));
  return made;
}

// As typed<>(), but the type is that of one input slot, whatever the other operands are.
template <class... Ts, class F>
KernelMake typed_by(std::string slot, F make) {
  return [slot = std::move(slot), make](const KernelSite& site, std::string* why_not) {
    return for_dtype<Ts...>(site.in(slot).dtype, why_not,
                            [&]<class T>() { return make.template operator()<T>(site); });
  };
}

// For kernels that only move elements: the type stands for its size.
template <class F>
BoundKernel by_size(DType dtype, F make) {
  switch (size_of(dtype)) {
    case 1:
      return make.template operator()<uint8_t>();
    case 2:
      return make.template operator()<uint16_t>();
    case 4:
      return make.template operator()<uint32_t>();
    default:
      return make.template operator()<uint64_t>();
  }
}

template <class T>
T* raw_as(const Tensor& tensor) {
  return static_cast<T*>(tensor.address());
}

using Strides = std::array<int64_t, kMaxRank>;

inline Strides strides_of(const Shape& shape) {
  Strides strides{};
  int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = step;
    step *= shape.at(d);
  }
  return strides;
}

// Steps of an operand of shape `shape` when it is repeated to `out`, aligned at the right: 0 along
// the dimensions where it has one element or none of its own.
inline Strides broadcast_strides(const Shape& shape, const Shape& out) {
  const Strides own = strides_of(shape);
  Strides strides{};
  const int shift = out.rank() - shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.at(d) != 1) {
      strides[static_cast<size_t>(d + shift)] = own[static_cast<size_t>(d)];
    }
  }
  return strides;
}

// N operands walked in the row-major order of one shape. Neighbouring dimensions over which every
// operand steps evenly are merged, so equal shapes become a single run.
template <size_t N>
class Walk {
 public:
  using Offsets = std::array<int64_t, N>;

  Walk(const Shape& shape, const std::array<Strides, N>& strides) : count_(shape.count()) {
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const int64_t extent = shape.at(d);
      if (extent == 1) continue;
      Offsets step;
      for (size_t i = 0; i < N; ++i) step[i] = strides[i][static_cast<size_t>(d)];
      if (rank_ > 0 && merges(step)) {
        extent_[rank_ - 1] *= extent;
      } else {
        extent_[rank_] = extent;
        step_[rank_++] = step;
      }
    }
    if (rank_ == 0) extent_[rank_++] = 1;
  }

  int64_t count() const { return count_; }
  int64_t step(size_t operand) const { return step_[0][operand]; }  // along a run

  // Calls f(position, offsets, n) for each run inside [begin, end): `position` counts elements of
  // the shape, `offsets` say where each operand stands, and each moves on by its step().
  template <class F>
  void runs(std::pair<int64_t, int64_t> range, F f) const {
    auto [at, end] = range;
    if (at >= end) return;
    Offsets offsets{};
    std::array<int64_t, kMaxRank> index{};
    int64_t rest = at;
    for (size_t d = 0; d < rank_; ++d) {
      index[d] = rest % extent_[d];
      rest /= extent_[d];
      for (size_t i = 0; i < N; ++i) offsets[i] += index[d] * step_[d][i];
    }
    while (at < end) {
      const int64_t n = std::min(extent_[0] - index[0], end - at);
      f(at, static_cast<const Offsets&>(offsets), n);
      at += n;
      // Back to the start of the run, then carry into the outer dimensions.
      for (size_t i = 0; i < N; ++i) offsets[i] -= index[0] * step_[0][i];
      index[0] = 0;
      for (size_t d = 1; d < rank_; ++d) {
        for (size_t i = 0; i < N; ++i) offsets[i] += step_[d][i];
        if (++index[d] < extent_[d]) break;
        for (size_t i = 0; i < N; ++i) offsets[i] -= extent_[d] * step_[d][i];
        index[d] = 0;
      }
    }
  }

 private:
  bool merges(const Offsets& step) const {
    for (size_t i = 0; i < N; ++i) {
      if (step[i] != step_[rank_ - 1][i] * extent_[rank_ - 1]) return false;
    }
    return true;
  }

  size_t rank_ = 0;  // innermost dimension first
  std::array<int64_t, kMaxRank> extent_{};
  std::array<Offsets, kMaxRank> step_{};
  int64_t count_;
};

}  // namespace trireme
