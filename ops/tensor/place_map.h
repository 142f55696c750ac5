// Ops whose result holds elements of one operand in other places: the places are a table made when
// shapes are known.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// For every element of the result the element of the operand, -1 where it holds the fill.
using PlaceRule =
    std::function<std::vector<int64_t>(const OpView& op, const Shape& from, const Shape& out)>;

// Kernel and gradient of `row`: Out from `slot` by `rule`, and back by adding up. The gradient op
// reads `slot` for its shape where that is not Out's. `fill_attr` names the float attribute that
// fills; none: 0.
void add_places(OpSchema& row, const std::string& slot, PlaceRule rule,
                const std::string& fill_attr = "");

// Walks the indices of a shape in row-major order.
class Counter {
 public:
  explicit Counter(const Shape& shape)
      : shape_(shape), index_(static_cast<size_t>(shape.rank())), left_(shape.count()) {}
  bool more() const { return left_ > 0; }
  int64_t operator[](int axis) const { return index_[static_cast<size_t>(axis)]; }
  void next() {
    --left_;
    for (int d = shape_.rank() - 1; d >= 0; --d) {
      if (++index_[static_cast<size_t>(d)] < shape_.at(d)) return;
      index_[static_cast<size_t>(d)] = 0;
    }
  }

 private:
  Shape shape_;
  std::vector<int64_t> index_;
  int64_t left_;
};

}  // namespace trireme
