// Small helpers that several op tests share.
#pragma once

#include <cmath>
#include <utility>

#include "core/tensor.h"

namespace trireme::testing {

inline Tensor with_lod(Tensor tensor, Lod lod) {
  tensor.set_lod(std::move(lod));
  return tensor;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace trireme::testing
