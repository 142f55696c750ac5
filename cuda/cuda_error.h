// Errors of CUDA and its libraries, as Errors that name the call, the library and the card.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>
#ifdef TRIREME_HAVE_CUDNN
#include <cudnn.h>
#endif

#include <string>

namespace trireme::cuda {

void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(nvrtcResult status, const char* call);
#ifdef TRIREME_HAVE_CUDNN
void check(cudnnStatus_t status, const char* call);
#endif

// Why no card can be used: which driver there is and which one this library asks for.
std::string why_no_card(cudaError_t status);

}  // namespace trireme::cuda
