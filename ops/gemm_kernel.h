// Kernels built on a matrix product, made once for the BLAS library and once for the reference
// loop.
#pragma once

#include "cpu/gemm.h"
#include "ir/kernel.h"

namespace trireme {

// Which product a kernel calls. Only the reference one may be cut into parts: a library's sums can
// depend on the number of rows it is given.
template <class T>
struct Product {
  GemmFn<T> run = nullptr;
  bool may_split = false;

  void operator()(const Gemm<T>& gemm) const { run(gemm); }
};

// make: []<class T>(const KernelSite& site, Product<T> product) -> BoundKernel.
template <class F>
KernelMake with_blas(F make) {
  return [make](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    if (!has_blas()) {
      if (why_not) *why_not = "built without BLAS";
      return std::nullopt;
    }
    return typed<float, double>([&make]<class T>(const KernelSite& at) {
      return make.template operator()<T>(at, Product<T>{&blas_gemm<T>, false});
    })(site, why_not);
  };
}

template <class F>
KernelMake with_reference(F make) {
  return typed<float, double>([make]<class T>(const KernelSite& site) {
    return make.template operator()<T>(site, Product<T>{&reference_gemm<T>, true});
  });
}

}  // namespace trireme
