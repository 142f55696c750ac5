// What the oneDNN adaptor asks the library for: one pass of a convolution over some images.
// Included only where the library is there.
#pragma once

#include <string>

#include "cpu/onednn.h"
#include "cpu/onednn_calls.h"

namespace trireme::onednn {

// What the library says of one pass over some images of the batch.
struct Pass {
  dnnl::primitive primitive;
  Desc image, map, filter, scratchpad;
  std::string implementation;
};

// How the images that are handed in lie in memory.
Tag given_layout(const ConvSizes& sizes, int64_t block);

// `as_given`: images in blocks are taken as they are, others as the library likes them.
Pass make_pass(const ConvSizes& sizes, ConvPass kind, int64_t images, bool winograd, bool as_given);

}  // namespace trireme::onednn
