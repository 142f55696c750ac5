// Convolutions of cuDNN, chosen when a plan is bound: deterministic ones, in true float32 unless
// FLAGS_allow_tf32 is set.
#pragma once

#include <memory>
#include <string>

#include "ir/kernel.h"
#include "ops/nn/conv_product.h"

namespace trireme::cuda {

// Which of image, filter and map is made of the other two.
enum class ConvProduct { map, image, filter };

class CudnnConv {
 public:
  virtual ~CudnnConv() = default;
  // Operands in the order of conv_text.h.
  virtual void run(const KernelArgs& k, void* to, const void* a, const void* b) const = 0;
  virtual size_t scratch() const = 0;
};

// Null where cuDNN does not take it, or is not there; `why_not` says so.
std::shared_ptr<const CudnnConv> cudnn_conv(ConvProduct product, const ConvShape& shape,
                                            DType dtype, std::string* why_not);

}  // namespace trireme::cuda
