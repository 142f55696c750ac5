// One pass over a parameter and its moments: the steps of optimizers as loops at memory speed.
#pragma once

#include <cstdint>

namespace trireme {

// m1 = beta1 * m1 + (1 - beta1) * g; m2 = beta2 * m2 + (1 - beta2) * g * g;
// p -= step * (m1 / (sqrt(m2) + epsilon)). Results may be the memory of their operands.
template <class T>
struct AdamStep {
  T beta1, beta2, step, epsilon;

  struct In {
    const T *param, *grad, *moment1, *moment2;
  };
  struct Out {
    T *param, *moment1, *moment2;
  };
  // Elements [begin, end). float and double.
  void run(const In& in, const Out& out, int64_t begin, int64_t end) const;
};

}  // namespace trireme
