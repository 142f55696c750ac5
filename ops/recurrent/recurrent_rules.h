// What recurrent rows share: sequences laid out as steps of a shrinking batch, and activations.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cpu/exponential.h"
#include "cpu/vectorised.h"
#include "ir/kernel.h"

namespace trireme {

// Part `index` of `count` of n things.
inline std::pair<int64_t, int64_t> part_of(int64_t n, int64_t index, int64_t count) {
  return {n * index / count, n * (index + 1) / count};
}

// Into how many groups rows that do not meet are cut, by their number alone.
inline int row_groups(int64_t rows) {
  constexpr int64_t kLeast = 16;  // that a product still runs well with
  return static_cast<int>(std::clamp<int64_t>(rows / kLeast, 1, 8));
}

// Sequences, longest first, run side by side: step t holds the row each of them has at t, and the
// sequences that still run at t are the first `active(t)`. With `reverse` step 0 is a sequence's
// last row. Equal lengths keep their order.
class Steps {
 public:
  Steps(std::vector<int64_t> offsets, bool reverse);

  int64_t sequences() const { return static_cast<int64_t>(order_.size()); }
  int64_t rows() const { return offsets_.back(); }
  int64_t count() const { return static_cast<int64_t>(active_.size()); }  // of the longest
  int64_t active(int64_t step) const { return active_[static_cast<size_t>(step)]; }
  // The number, in the LoD, of the sequence that runs at place `slot`.
  int64_t sequence(int64_t slot) const { return order_[static_cast<size_t>(slot)]; }
  int64_t row(int64_t slot, int64_t step) const {
    const auto s = static_cast<size_t>(sequence(slot));
    return reverse_ ? offsets_[s + 1] - 1 - step : offsets_[s] + step;
  }

  // Sequences do not meet: they are cut into groups, by their number alone, that run beside each
  // other. A group has places [begin, end).
  struct Group {
    int64_t index, begin, end;
    int64_t size() const { return end - begin; }
  };
  int groups() const { return row_groups(sequences()); }
  Group group(int64_t index) const {
    const auto [begin, end] = part_of(sequences(), index, groups());
    return {index, begin, end};
  }
  // The group's sequences that still run at a step; they are its first.
  int64_t active(const Group& group, int64_t step) const {
    return std::clamp<int64_t>(active(step) - group.begin, 0, group.size());
  }
  int64_t count(const Group& group) const {
    int64_t steps = count();
    while (steps > 0 && active(group, steps - 1) == 0) --steps;
    return steps;
  }

 private:
  std::vector<int64_t> offsets_, order_, active_;
  bool reverse_;
};

enum class Activation { identity, sigmoid, tanh, relu };

std::vector<std::string> activation_names();
Activation activation_of(const std::string& name);       // one of activation_names()
Activation activation_of(const OpView& op, int number);  // 0 identity, 1 sigmoid, 2 tanh, 3 relu

template <class T>
T activate(Activation kind, T x) {
  switch (kind) {
    case Activation::sigmoid:
      return T{1} / (T{1} + exponential(-x));
    case Activation::tanh:
      return hyperbolic_tangent(x);
    case Activation::relu:
      return x > 0 ? x : T{0};
    case Activation::identity:
      break;
  }
  return x;
}

// The derivative where the result is y.
template <class T>
T slope(Activation kind, T y) {
  switch (kind) {
    case Activation::sigmoid:
      return y * (T{1} - y);
    case Activation::tanh:
      return T{1} - y * y;
    case Activation::relu:
      return y > 0 ? T{1} : T{0};
    case Activation::identity:
      break;
  }
  return T{1};
}

// Calls f with the activation as a type's value, so that a loop around activate() or slope() has
// nothing left to choose.
template <class F>
void with_activation(Activation kind, const F& f) {
  switch (kind) {
    case Activation::sigmoid:
      return f(std::integral_constant<Activation, Activation::sigmoid>());
    case Activation::tanh:
      return f(std::integral_constant<Activation, Activation::tanh>());
    case Activation::relu:
      return f(std::integral_constant<Activation, Activation::relu>());
    case Activation::identity:
      return f(std::integral_constant<Activation, Activation::identity>());
  }
}

template <class T>
void activate_row(Activation kind, T* row, int64_t n) {
  with_activation(kind, [=](auto fixed) {
    vectorised([=] {
      for (int64_t j = 0; j < n; ++j) row[j] = activate(decltype(fixed)::value, row[j]);
    });
  });
}

// The rows added up, one after another. `pitch`: from row to row, where that is not the width.
template <class T>
void sum_rows(int64_t rows, int64_t width, const T* from, T* to, int64_t pitch = 0) {
  if (pitch == 0) pitch = width;
  std::fill_n(to, width, T{0});
  vectorised([=] {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = 0; j < width; ++j) to[j] += from[row * pitch + j];
    }
  });
}

// The state before a step, [.., width]: the row before it in its sequence, or before the first step
// what is given by sequence, or zeros.
template <class T>
const T* state_before(const Steps& steps, int64_t slot, int64_t step, int64_t width, const T* rows,
                      const T* given, const T* zeros) {
  if (step > 0) return rows + steps.row(slot, step - 1) * width;
  return given ? given + steps.sequence(slot) * width : zeros;
}

// The states of a group before its first step.
template <class T>
void first_states(const Steps& steps, const Steps::Group& group, int64_t width, const T* given,
                  T* to) {
  for (int64_t slot = group.begin; slot < group.end; ++slot, to += width) {
    if (given) {
      std::copy_n(given + steps.sequence(slot) * width, width, to);
    } else {
      std::fill_n(to, width, T{0});
    }
  }
}

// An operand that may be absent, at run time.
template <class T>
const T* in_or_null(const KernelArgs& k, int position) {
  return k.has_in(position) ? k.in<T>(position) : nullptr;
}
template <class T>
T* out_or_null(const KernelArgs& k, int position) {
  return k.has_out(position) ? k.out<T>(position) : nullptr;
}

}  // namespace trireme
