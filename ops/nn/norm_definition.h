// What the gradient kernels of normalisations compute, in primitives, for those who differentiate
// them.
#pragma once

#include <vector>

#include "ir/body.h"

namespace trireme {

// What is normalised together, with its gradient.
struct Normalised {
  Expr x, grad;
  std::vector<int> axes;  // along which mean and variance are taken
  Expr scale;             // broadcasts with x; unset: there is none
  double epsilon;
};

struct NormGradients {
  Expr x;
  Expr scaled;  // the gradient of the scale before it is added up
};
NormGradients norm_gradients(const Normalised& n);

}  // namespace trireme
