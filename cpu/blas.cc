// The BLAS adaptor: the only file that knows whether there is a library, and which.
#include "core/error.h"
#include "cpu/gemm.h"

#ifdef TRIREME_HAVE_CBLAS

#include <cblas.h>

#include <algorithm>
#include <limits>

namespace trireme {
namespace {

void multiply(const Gemm<float>& g, CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b) {
  cblas_sgemm(CblasRowMajor, a, b, static_cast<int>(g.m), static_cast<int>(g.n),
              static_cast<int>(g.k), g.alpha, g.a, static_cast<int>(g.lda), g.b,
              static_cast<int>(g.ldb), g.beta, g.c, static_cast<int>(g.ldc));
}

void multiply(const Gemm<double>& g, CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b) {
  cblas_dgemm(CblasRowMajor, a, b, static_cast<int>(g.m), static_cast<int>(g.n),
              static_cast<int>(g.k), g.alpha, g.a, static_cast<int>(g.lda), g.b,
              static_cast<int>(g.ldb), g.beta, g.c, static_cast<int>(g.ldc));
}

}  // namespace

bool has_blas() { return true; }

template <class T>
void blas_gemm(const Gemm<T>& g) {
  // Threads are the engine's business: the library works on the thread that calls it.
  static const bool single_threaded = (openblas_set_num_threads(1), true);
  (void)single_threaded;
  if (g.m == 0 || g.n == 0) return;
  // The library counts in int, and wants leading dimensions of 1 or more.
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (g.k == 0 || std::max({g.m, g.n, g.k, g.lda, g.ldb, g.ldc}) > kMost) {
    reference_gemm(g);
    return;
  }
  multiply(g, g.trans_a ? CblasTrans : CblasNoTrans, g.trans_b ? CblasTrans : CblasNoTrans);
}

template void blas_gemm(const Gemm<float>&);
template void blas_gemm(const Gemm<double>&);

}  // namespace trireme

#else

namespace trireme {

bool has_blas() { return false; }

template <class T>
void blas_gemm(const Gemm<T>&) {
  throw InternalError("a BLAS product was chosen in a build without BLAS");
}

template void blas_gemm(const Gemm<float>&);
template void blas_gemm(const Gemm<double>&);

}  // namespace trireme

#endif
