// Calls of cuBLAS. It stores column after column: what it sees are the matrices turned over, and
// c' = op(b)' * op(a)'.
#include "cuda/kernels/blas.h"

#include <algorithm>
#include <type_traits>

#include "core/dtype.h"
#include "cuda/cuda_error.h"

namespace trireme::cuda {

namespace {

template <class T>
constexpr cudaDataType_t kBlasType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kBlasType<double> = CUDA_R_64F;
template <>
constexpr cudaDataType_t kBlasType<float16> = CUDA_R_16F;
template <>
constexpr cudaDataType_t kBlasType<bfloat16> = CUDA_R_16BF;

}  // namespace

// Halves are multiplied exactly and added up in float.
template <class T>
void multiply(CudaQueue& queue, const BlasProduct<T>& what) {
  constexpr bool is_double = std::is_same_v<T, double>, is_float = std::is_same_v<T, float>;
  constexpr cudaDataType_t type = kBlasType<T>;
  const cublasComputeType_t compute = is_double               ? CUBLAS_COMPUTE_64F
                                      : is_float && what.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                              : CUBLAS_COMPUTE_32F;
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  using Factor = std::conditional_t<is_double, double, float>;
  const Factor alpha = static_cast<Factor>(what.alpha), beta = static_cast<Factor>(what.beta);
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
template void multiply<float16>(CudaQueue&, const BlasProduct<float16>&);
template void multiply<bfloat16>(CudaQueue&, const BlasProduct<bfloat16>&);

}  // namespace trireme::cuda
