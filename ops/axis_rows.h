// A tensor seen as rows along one axis: the axis is walked with a stride, the rest are rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/shape.h"

namespace trireme {

struct AxisRows {
  int64_t outer = 0;   // product of the dimensions before the axis
  int64_t extent = 0;  // of the axis
  int64_t inner = 0;   // product of those behind it: the stride along the axis

  AxisRows() = default;
  AxisRows(const Shape& shape, int axis)
      : outer(shape.product(0, axis).value()),
        extent(shape.at(axis)),
        inner(shape.product(axis + 1, shape.rank()).value()) {}

  int64_t rows() const { return outer * inner; }
  int64_t begin(int64_t row) const {  // of the row's first element
    return row / inner * extent * inner + row % inner;
  }
  // Into how many parts the rows may be cut, by shape alone.
  int parts() const {
    constexpr int64_t kElementsPerPart = 16384;
    return static_cast<int>(
        std::clamp<int64_t>(std::min(rows() * extent / kElementsPerPart, rows()), 1, 64));
  }
};

}  // namespace trireme
