// Calls of cuBLAS. It stores column after column: what it sees are the matrices turned over, and
// c' = op(b)' * op(a)'.
#include "cuda/kernels/blas.h"

#include <algorithm>

#include "cuda/cuda_error.h"

namespace trireme::cuda {

template <class T>
void multiply(CudaQueue& queue, const BlasProduct<T>& what) {
  constexpr bool is_double = sizeof(T) == 8;
  constexpr cudaDataType_t type = is_double ? CUDA_R_64F : CUDA_R_32F;
  const cublasComputeType_t compute = is_double   ? CUBLAS_COMPUTE_64F
                                      : what.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const T alpha = static_cast<T>(what.alpha), beta = static_cast<T>(what.beta);
  queue.device.use();
  check(cublasGemmStridedBatchedEx_64(
            queue.blas(), op(what.trans_b), op(what.trans_a), what.n, what.m, what.k, &alpha,
            what.b, type, std::max<int64_t>(what.ldb, 1), what.step_b, what.a, type,
            std::max<int64_t>(what.lda, 1), what.step_a, &beta, what.c, type,
            std::max<int64_t>(what.ldc, 1), what.step_c, what.count, compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx_64");
}

template void multiply<float>(CudaQueue&, const BlasProduct<float>&);
template void multiply<double>(CudaQueue&, const BlasProduct<double>&);

}  // namespace trireme::cuda
