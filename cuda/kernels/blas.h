// One way to cuBLAS for matrices that are stored row after row.
#pragma once

#include <cstdint>

#include "cuda/cuda_device.h"

namespace trireme::cuda {

// c = alpha * op(a) * op(b) + beta * c, [m, n] = [m, k] * [k, n], for `count` of each at equal
// steps, in elements. `ld`: from row to row, as stored.
template <class T>
struct BlasProduct {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t lda = 0;
  bool trans_a = false;
  const T* b = nullptr;
  int64_t ldb = 0;
  bool trans_b = false;
  T* c = nullptr;
  int64_t ldc = 0;
  double alpha = 1, beta = 0;
  int64_t count = 1, step_a = 0, step_b = 0, step_c = 0;
  bool tf32 = false;
};

template <class T>
void multiply(CudaQueue& queue, const BlasProduct<T>& what);

}  // namespace trireme::cuda
