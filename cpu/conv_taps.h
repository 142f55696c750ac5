// Filter gradients of convolutions over few pixels, as one matrix product per tap of the window.
#pragma once

#include <memory>

#include "cpu/onednn.h"

namespace trireme {

// Whether the filter gradient of these sizes is made so: images in blocks, no more pixels than
// channels. By sizes alone, as takes_winograd().
bool takes_taps(const ConvSizes& sizes);

// ConvResult::filter. Each tap sums over the pixels where it lies inside the image: a
// direct convolution multiplies the padding as well, makes one gradient per slice of the batch and
// adds them up. Only where takes_taps().
std::unique_ptr<OnednnConv> make_conv_taps(const ConvSizes& sizes);

}  // namespace trireme
