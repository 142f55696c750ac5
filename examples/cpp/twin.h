// What the twins of Python samples share: their data, and the comparison with Python's numbers.
#pragma once

#include <cmath>
#include <cstdio>
#include <vector>

#include "core/tensor.h"

namespace trireme {

// 0.1, 0.2, ... in one column.
inline Tensor tenths(int64_t rows) {
  Tensor x(DType::float32, {rows, 1});
  for (int64_t i = 0; i < rows; ++i) {
    x.data<float>()[i] = static_cast<float>(static_cast<double>(i + 1) / 10);
  }
  return x;
}

// Prints what was fetched, and says whether Python gets the same.
inline bool twins(const char* what, const Tensor& found, const std::vector<float>& python) {
  bool same = found.numel() == static_cast<int64_t>(python.size());
  std::printf("%s:", what);
  for (int64_t i = 0; same && i < found.numel(); ++i) {
    const float value = found.data<float>()[i];
    std::printf(" %.7f", static_cast<double>(value));
    same = std::abs(value - python[static_cast<size_t>(i)]) < 1e-6f;
  }
  std::printf(same ? "\n" : " is not what Python gets\n");
  return same;
}

}  // namespace trireme
