// Checks on the labels of classification losses.
#include "ops/loss/class_labels.h"

namespace trireme {

int64_t ClassLabels::checked(int64_t i, int64_t classes) const {
  const int64_t label = (*this)[i];
  if (label < 0 || label >= classes) {
    throw Error(ErrorKind::out_of_range,
                cat("label ", label, " at position ", i, " is outside the ", classes, " classes"))
        .fix(cat("feed labels from 0 to ", classes - 1,
                 ", make the layer before as wide as there are classes, or name the value to skip "
                 "as ignore_index"));
  }
  return label;
}

void check_labels(const OpView& op, std::string_view scores_slot, int axis, bool soft) {
  const ValueInfo& scores = op.in(scores_slot);
  const ValueInfo& label = op.in("Label");
  const Shape& shape = label.shape;
  Shape wanted = scores.shape;
  if (soft) {
    if (shape.rank() != wanted.rank() || !shape.may_equal(wanted)) {
      throw op
          .error(cat("Label is ", shape, " but ", scores_slot, " is ", wanted,
                     "; soft labels have one number for each class"))
          .fix(cat("give Label the shape ", wanted, ", or set soft_label to False"));
    }
    if (label.dtype != scores.dtype) {
      throw Error(ErrorKind::type_mismatch,
                  cat("Label is ", name_of(label.dtype), " but ", scores_slot, " is ",
                      name_of(scores.dtype), "; soft labels have the scores' type"))
          .fix("cast Label");
    }
    return;
  }
  if (label.dtype != DType::int64 && label.dtype != DType::int32) {
    throw Error(ErrorKind::type_mismatch,
                cat("Label is ", name_of(label.dtype), " but class numbers are int64 or int32"))
        .fix("feed Label as int64, or set soft_label to True");
  }
  Shape without = wanted;
  without.erase(axis);
  wanted[axis] = 1;
  const bool fits = shape.rank() == wanted.rank()
                        ? shape.may_equal(wanted)
                        : shape.rank() == without.rank() && shape.may_equal(without);
  if (!fits) {
    throw op
        .error(cat("Label is ", shape, " but ", scores_slot, " is ", scores.shape,
                   "; there is one class number where it has its classes"))
        .fix(cat("give Label the shape ", wanted));
  }
}

}  // namespace trireme
