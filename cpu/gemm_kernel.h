// Kernels built on a matrix product, made for oneDNN, for the BLAS library and for the reference
// loop.
#pragma once

#include "cpu/gemm.h"
#include "cpu/onednn.h"
#include "ir/kernel.h"

namespace trireme {

// Which product a kernel calls, and how it may be cut. A library's sums can depend on the number of
// rows it is given, so its products are cut by shape alone, or not at all.
template <class T>
struct Product {
  GemmFn<T> run = nullptr;
  int most_slices = 1;     // of one product
  int64_t least_rows = 1;  // of a slice
  bool staged = false;     // runs better over copies of operands that lie awkwardly

  void operator()(const Gemm<T>& gemm) const { run(gemm); }
};

// make: []<class T>(const KernelSite& site, Product<T> product) -> BoundKernel.
template <class F>
KernelMake with_onednn(F make) {
  return [make](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    if (!has_onednn()) {
      if (why_not) *why_not = "built without oneDNN";
      return std::nullopt;
    }
    return typed<float>([&make]<class T>(const KernelSite& at) {
      return make.template operator()<T>(at, Product<T>{&onednn_gemm, 8, 16, true});
    })(site, why_not);
  };
}

template <class F>
KernelMake with_blas(F make) {
  return [make](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    if (!has_blas()) {
      if (why_not) *why_not = "built without BLAS";
      return std::nullopt;
    }
    return typed<float, double>([&make]<class T>(const KernelSite& at) {
      return make.template operator()<T>(at, Product<T>{&blas_gemm<T>});
    })(site, why_not);
  };
}

template <class F>
KernelMake with_reference(F make) {
  return typed<float, double>([make]<class T>(const KernelSite& site) {
    return make.template operator()<T>(site, Product<T>{&reference_gemm<T>, 64, 8});
  });
}

}  // namespace trireme
