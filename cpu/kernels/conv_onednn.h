// Convolutions on oneDNN, as phases of a kernel.
#pragma once

#include "cpu/onednn.h"
#include "ir/kernel.h"
#include "ops/nn/conv_product.h"

namespace trireme {

// Which operands of a kernel hold the tensors of a convolution; the wanted one is an output, the
// others are inputs. With a bias, the result gets it as `sums` says, and its relu.
struct ConvOperands {
  int image = -1, map = -1, filter = -1, bias = -1;
  ChannelBias sums;
  int residual = -1;  // added behind the bias, before relu
  bool relu = false;
};

// Appends its phases; false, with the reason, when oneDNN has nothing for it. Two spatial
// axes and float32 only.
bool add_conv_phases(const ConvShape& shape, ConvResult wanted, const ConvOperands& operands,
                     BoundKernel& kernel, std::string* why_not);

// The same of a conv2d in a program for inference: one kernel for all that comes behind the sums.
bool add_inference_phases(const ConvShape& shape, const ConvOperands& operands, BoundKernel& kernel,
                          std::string* why_not);

}  // namespace trireme
