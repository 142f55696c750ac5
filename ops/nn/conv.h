// What a convolution op says: its sizes, checked, whichever kernel computes it.
#pragma once

#include "ops/nn/conv_product.h"

namespace trireme {

// The sizes of a site. `shape` is complete once every extent is known; `out` may have unknowns.
struct Conv {
  ConvShape shape;
  ImageLayout layout;
  Shape out;
};

// Which of the rows it is.
struct ConvKind {
  int spatial = 2;
  bool transposed = false;

  Conv site(const OpView& op) const;
};

// The bias of the result, and the relu behind it.
ChannelBias bias_of(const OpView& op, const Conv& conv, const ConvKind& kind);

}  // namespace trireme
