// How rows of a table begin that are made when they are first asked for.
#pragma once

#include <cstdint>
#include <string>

#include "core/scope.h"
#include "core/shape.h"
#include "core/text.h"

namespace trireme {

// Stands in a parameter server's scope where else the whole table would: its rows get the numbers
// that the initializer would have given them.
class RowInit final : public HostObject {
 public:
  enum class Law { constant, uniform, normal, truncated_normal };

  std::string describe() const override {
    return cat("rows of a table ", shape, ", made on first use");
  }
  int64_t height() const { return shape.at(0); }
  int64_t width() const { return shape.product(1, shape.rank()).value(); }

  Shape shape;
  Law law = Law::constant;
  double first = 0, second = 0;  // a value; least and most; mean and deviation
  uint64_t seed = 0, stream = 0;
  uint64_t begin = 0;  // elements of the stream before row 0
};

}  // namespace trireme
