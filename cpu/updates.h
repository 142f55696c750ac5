// One sweep over a parameter and its moments: the steps of optimizers as loops at memory speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// A row of a table and what moves it.
template <class T>
struct RowStep {
  int64_t row;
  const T* grad;
};

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

// m += g * g; p -= rate * g / (sqrt(m) + epsilon). Results may be the memory of their operands.
template <class T>
struct AdagradStep {
  T rate, epsilon;

  struct In {
    const T *param, *grad, *moment;
  };
  struct Out {
    T *param, *moment;
  };
  // Elements [begin, end). float and double.
  void run(const In& in, const Out& out, int64_t begin, int64_t end) const;
  // Some rows of `width`, each once.
  void run(std::span<const RowStep<T>> rows, int64_t width, const Out& table) const;
};

// Asks for a row some turns before it is needed: rows are far apart, and memory is slow. Into the
// second cache, which waits for more lines at a time than the first.
template <class T>
void ask_for_row(const T* row, int64_t width) {
  __builtin_prefetch(row, 0, 2);
  __builtin_prefetch(row + width - 1, 0, 2);
}
constexpr size_t kRowsAhead = 32;

}  // namespace trireme
