// What is wrong with a plan for some facts, as a value: whoever asks decides whether it is said
// now, or when the run comes to it.
#pragma once

#include <optional>

#include "core/error.h"

namespace trireme {

using Problem = std::optional<Error>;

// What a row of the op table says of its operands. Rules and makers of kernels throw, as they are
// also called for whoever builds a program; here that ends.
template <class Work>
[[nodiscard]] Problem problem_of_row(const Work& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

inline void say(const Problem& problem) {
  if (problem) throw Error(*problem);
}

}  // namespace trireme
