// Largest element and sums of a row of neighbours, as loops that become vectors.
//
// float32 goes in sixteen lanes that are brought together at the end, always in the same order, so
// the bits do not depend on the vectors' width. float64 is the oracle and goes one by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/exponential.h"
#include "cpu/vectorised.h"

namespace trireme {

// The sum of term(j) over a row.
template <class T, class Term>
T row_sum(int64_t n, const Term& term) {
  if constexpr (std::is_same_v<T, float>) {
    constexpr int64_t kLanes = 16;
    T lanes[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
    }
    for (; j < n; ++j) lanes[j % kLanes] += term(j);
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  } else {
    T sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += term(j);
    return sum;
  }
}

// The largest of x[0] .. x[n - 1]; NaN is passed over, except in x[0].
template <class T>
T row_max(const T* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, x[0]);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = lanes[lane] < x[j + lane] ? x[j + lane] : lanes[lane];
    }
  }
  for (; j < n; ++j) lanes[0] = std::max(lanes[0], x[j]);
  for (int64_t lane = 1; lane < kLanes; ++lane) lanes[0] = std::max(lanes[0], lanes[lane]);
  return lanes[0];
}

}  // namespace trireme
