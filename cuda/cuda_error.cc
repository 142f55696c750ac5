// Texts of errors that CUDA, cuBLAS, cuDNN and NVRTC report.
#include "cuda/cuda_error.h"

#include "core/error.h"
#include "core/text.h"

namespace trireme::cuda {
namespace {

std::string version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

std::string card_text() {
  int id = 0;
  cudaDeviceProp facts{};
  if (cudaGetDevice(&id) != cudaSuccess || cudaGetDeviceProperties(&facts, id) != cudaSuccess) {
    return "a GPU";
  }
  return cat("GPU ", id, " (", facts.name, ")");
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // the next call is not to report this one again
  throw Error(ErrorKind::external,
              cat(call, " failed on ", card_text(), ": ", cudaGetErrorString(status),
                  " (CUDA error ", static_cast<int>(status), ")"));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::external, cat("cuBLAS: ", call, " failed on ", card_text(), ": ",
                                       cublasGetStatusString(status)));
}

void check(nvrtcResult status, const char* call) {
  if (status == NVRTC_SUCCESS) return;
  throw Error(ErrorKind::external, cat("NVRTC: ", call, " failed: ", nvrtcGetErrorString(status)));
}

#ifdef TRIREME_HAVE_CUDNN
void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(ErrorKind::external,
              cat("cuDNN: ", call, " failed on ", card_text(), ": ", cudnnGetErrorString(status)));
}
#endif

std::string why_no_card(cudaError_t status) {
  int driver = 0, built_for = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&built_for);
  (void)cudaGetLastError();
  if (driver == 0) {
    return cat("the NVIDIA driver is not installed (CUDA ", version_text(built_for),
               " asks for one)");
  }
  if (status == cudaErrorInsufficientDriver) {
    return cat("the NVIDIA driver serves CUDA ", version_text(driver), " but this library needs ",
               version_text(built_for));
  }
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    return "the NVIDIA driver is installed, but 0 GPUs are visible";
  }
  return cat("the NVIDIA driver reports: ", cudaGetErrorString(status));
}

}  // namespace trireme::cuda
