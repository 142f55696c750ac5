// What the files of this folder share: how kernels join the op table.
#pragma once

#include <vector>

#include "cpu/gemm_kernel.h"
#include "ir/schema.h"

namespace trireme {

// The same kernel on each matrix product there is, best first.
// make: []<class T>(const KernelSite& site, Product<T> product) -> BoundKernel.
template <class F>
std::vector<Kernel> on_products(F make) {
  return {{"onednn", with_onednn(make)},
          {"blas", with_blas(make)},
          {"reference", with_reference(make)}};
}

}  // namespace trireme
