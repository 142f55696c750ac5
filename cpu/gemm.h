// Matrix products on the CPU: a plain reference loop, and the BLAS library where there is one.
#pragma once

#include <cstdint>

namespace trireme {

// C = alpha * op(A) * op(B) + beta * C, row-major; op(A) is m x k, op(B) is k x n. A leading
// dimension is the distance between rows as stored. With beta 0 the old C is not read.
template <class T>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t lda = 0;
  bool trans_a = false;
  const T* b = nullptr;
  int64_t ldb = 0;
  bool trans_b = false;
  T* c = nullptr;
  int64_t ldc = 0;
  T alpha = 1;
  T beta = 0;

  // The same product for rows [begin, end) of C alone.
  Gemm rows(int64_t begin, int64_t end) const {
    Gemm part = *this;
    part.m = end - begin;
    part.a += trans_a ? begin : begin * lda;
    part.c += begin * ldc;
    return part;
  }
};

template <class T>
using GemmFn = void (*)(const Gemm<T>&);

// Each row of C is summed in an order that does not depend on which other rows are asked for, so
// cutting a product by rows keeps every bit. float and double.
template <class T>
void reference_gemm(const Gemm<T>& gemm);

// Below this a library's call costs more than the product.
template <class T>
bool is_tiny(const Gemm<T>& gemm) {
  return gemm.m * gemm.n * gemm.k <= 2048;
}
// Three plain loops: for products that is_tiny().
template <class T>
void tiny_gemm(const Gemm<T>& gemm);

// False when the engine was built without a BLAS library.
bool has_blas();
// The library's product, on the calling thread alone. Only where has_blas().
template <class T>
void blas_gemm(const Gemm<T>& gemm);

}  // namespace trireme
