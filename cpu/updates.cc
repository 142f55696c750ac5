#include "cpu/updates.h"

#include <cmath>

#include "cpu/independent.h"
#include "cpu/vectorised.h"

namespace trireme {

template <class T>
void AdamStep<T>::run(const In& in, const Out& out, int64_t begin, int64_t end) const {
  vectorised([=, s = *this] {
    TRIREME_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) {
      const T g = in.grad[i];
      const T m1 = s.beta1 * in.moment1[i] + (1 - s.beta1) * g;
      const T m2 = s.beta2 * in.moment2[i] + (1 - s.beta2) * g * g;
      const T p = in.param[i] - s.step * (m1 / (std::sqrt(m2) + s.epsilon));
      out.moment1[i] = m1;
      out.moment2[i] = m2;
      out.param[i] = p;
    }
  });
}

template struct AdamStep<float>;
template struct AdamStep<double>;

}  // namespace trireme
