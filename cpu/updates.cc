// The loops behind the steps of optimizers, compiled for every vector width.
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

template <class T>
void AdagradStep<T>::run(const In& in, const Out& out, int64_t begin, int64_t end) const {
  vectorised([=, s = *this] {
    TRIREME_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) {
      const T g = in.grad[i];
      const T moment = in.moment[i] + g * g;
      out.param[i] = in.param[i] - s.rate * g / (std::sqrt(moment) + s.epsilon);
      out.moment[i] = moment;
    }
  });
}

template <class T>
void AdagradStep<T>::run(std::span<const RowStep<T>> rows, int64_t width, const Out& table) const {
  vectorised([=, s = *this] {
    for (size_t r = 0; r < rows.size(); ++r) {
      if (r + kRowsAhead < rows.size()) {
        const int64_t next = rows[r + kRowsAhead].row * width;
        ask_for_row(table.param + next, width);
        ask_for_row(table.moment + next, width);
      }
      const T* grad = rows[r].grad;
      T* param = table.param + rows[r].row * width;
      T* moment = table.moment + rows[r].row * width;
      TRIREME_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) {
        const T g = grad[j];
        const T m = moment[j] + g * g;
        param[j] -= s.rate * g / (std::sqrt(m) + s.epsilon);
        moment[j] = m;
      }
    }
  });
}

template struct AdamStep<float>;
template struct AdamStep<double>;
template struct AdagradStep<float>;
template struct AdagradStep<double>;

}  // namespace trireme
