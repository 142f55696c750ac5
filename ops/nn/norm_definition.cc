// The gradient of a normalisation, statistics included.
#include "ops/nn/norm_definition.h"

namespace trireme {

NormGradients norm_gradients(const Normalised& n) {
  const Expr centred = n.x - reduce_mean(n.x, n.axes, true);
  const Expr inverse = rsqrt(reduce_mean(square(centred), n.axes, true) + n.epsilon);
  const Expr normal = centred * inverse;
  const Expr grad = n.scale ? n.grad * n.scale : n.grad;
  const Expr along = normal * reduce_mean(grad * normal, n.axes, true);
  return {.x = inverse * (grad - reduce_mean(grad, n.axes, true) - along),
          .scaled = n.grad * normal};
}

}  // namespace trireme
