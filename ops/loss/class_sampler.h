// How nce and sample_logits draw classes that are not the right ones.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/random.h"
#include "core/tensor.h"

namespace trireme {

// Classes from 0 to range - 1, the lower the likelier: as words sorted by how often they occur.
struct LogUniformClasses {
  int64_t range;

  double log_range() const { return std::log(static_cast<double>(range) + 1); }
  double probability(int64_t value) const {
    const auto v = static_cast<double>(value);
    return std::log((v + 2) / (v + 1)) / log_range();
  }
  int64_t at(double uniform) const {
    // Rounding may reach `range` itself.
    return (static_cast<int64_t>(std::exp(uniform * log_range())) - 1) % range;
  }
};

// Any distribution by the alias method: each class shares its place with one other.
struct AliasClasses {
  const Tensor *probabilities, *alias, *alias_probabilities;

  double probability(int64_t value) const { return element_as_double(*probabilities, value); }
  int64_t at(double place, double share) const {
    const int64_t classes = probabilities->numel();
    const auto index = static_cast<int64_t>(place * static_cast<double>(classes));
    if (share <= element_as_double(*alias_probabilities, index)) return index;
    const auto other = static_cast<int64_t>(element_as_double(*alias, index));
    return other < 0 ? index : other;  // a class that fills its place alone has none
  }
};

}  // namespace trireme
