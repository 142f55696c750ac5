// What the oneDNN adaptor asks the library for: one result of a convolution over some images.
// Included only where the library is there.
#pragma once

#include <string>

#include "cpu/onednn.h"
#include "cpu/onednn_calls.h"

namespace trireme::onednn {

// What the library says of one convolution over some images of the batch.
struct LibraryConv {
  dnnl::primitive primitive;
  Desc image, map, filter, scratchpad;
  std::string implementation;
  bool adds_bias = false;  // and its relu where that was asked for
};

// How the images that are handed in lie in memory.
Tag given_layout(const ConvSizes& sizes, int64_t block);

// [1, channels of the map, 1, 1]: as the library reads the bias.
Desc bias_layout(const ConvSizes& sizes);

// `as_given`: images in blocks are taken as they are, others as the library likes them.
struct ConvRequest {
  ConvResult kind = ConvResult::map;
  int64_t images = 0;
  bool winograd = false, as_given = false;
  ConvBehind behind = ConvBehind::nothing;
};
LibraryConv ask_library(const ConvSizes& sizes, const ConvRequest& request);

// A convolution described to the last detail; dnnl_unimplemented where only the reference loop or a
// matrix product is left.
LibraryConv ask_for_inference(const dnnl::convolution_forward::desc& asked,
                              const dnnl::primitive_attr& attr);

}  // namespace trireme::onednn
