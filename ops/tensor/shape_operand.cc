// Reads the extents a user gave as tensors or as an attribute.
#include "ops/tensor/shape_operand.h"

namespace trireme {
namespace {

Dim checked_extent(const OpView& op, int64_t extent, int axis) {
  if (extent < 0) {
    throw op.error(cat("shape[", axis, "] is ", extent, " but an extent cannot be negative"))
        .fix("give every extent of `shape` as a number from 0 up, or pass it as a tensor");
  }
  return Dim(extent);
}

Shape from_tensor(const OpView& op, const ValueInfo& operand, const Shape& declared) {
  if (operand.value == nullptr) {
    if (declared.rank() > 0) return declared;
    Shape unknown;
    const Dim rank = operand.shape.rank() == 1 ? operand.shape[0] : Dim();
    for (int64_t axis = 0; axis < rank.value(); ++axis) unknown.push_back(Dim());
    return unknown;
  }
  const Tensor& extents = operand.value->tensor();
  Shape shape;
  for (int64_t i = 0; i < extents.numel(); ++i) {
    const auto extent = static_cast<int64_t>(element_as_double(extents, i));
    shape.push_back(checked_extent(op, extent, static_cast<int>(i)));
  }
  return shape;
}

}  // namespace

Shape shape_operand(const OpView& op) {
  const auto attribute = op.attr<std::vector<int64_t>>("shape");
  const Shape declared{std::span<const int64_t>(attribute)};
  if (op.has("ShapeTensor")) return from_tensor(op, op.in("ShapeTensor"), declared);
  if (op.has("ShapeTensorList")) {
    Shape shape;
    for (size_t i = 0; i < op.count("ShapeTensorList"); ++i) {
      const ValueInfo& operand = op.in("ShapeTensorList", i);
      const int axis = static_cast<int>(i);
      shape.push_back(
          operand.value == nullptr
              ? (axis < declared.rank() ? declared[axis] : Dim())
              : checked_extent(
                    op, static_cast<int64_t>(element_as_double(operand.value->tensor(), 0)), axis));
    }
    return shape;
  }
  for (size_t i = 0; i < attribute.size(); ++i)
    checked_extent(op, attribute[i], static_cast<int>(i));
  return declared;
}

}  // namespace trireme
