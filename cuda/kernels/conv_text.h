// Convolutions of any sizes and layouts as CUDA text: for those that cuDNN does not take.
#pragma once

#include "cuda/generated.h"
#include "ops/nn/conv.h"

namespace trireme::cuda {

// Each has two operands and a result, at addresses 1, 2 and 0 in this order:
Launch conv_map_text(const ConvShape& shape, DType dtype);     // image, filter: map
Launch conv_image_text(const ConvShape& shape, DType dtype);   // map, filter: image
Launch conv_filter_text(const ConvShape& shape, DType dtype);  // image, map: filter

}  // namespace trireme::cuda
