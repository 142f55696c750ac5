// Labels of classification losses: their types, their shapes, and the error for one out of range.
#pragma once

#include "ir/kernel.h"

namespace trireme {

// Labels stored as int64 or int32, read as int64.
class ClassLabels {
 public:
  explicit ClassLabels(const Tensor& tensor)
      : wide_(tensor.dtype() == DType::int64 ? tensor.data<int64_t>() : nullptr),
        narrow_(wide_ ? nullptr : tensor.data<int32_t>()) {}
  int64_t operator[](int64_t i) const { return wide_ ? wide_[i] : narrow_[i]; }

  // Label i, which is from 0 to classes - 1; an Error says value, position and classes otherwise.
  int64_t checked(int64_t i, int64_t classes) const;

 private:
  const int64_t* wide_;
  const int32_t* narrow_;
};

// Refuses labels that do not fit `scores`, whose classes lie along `axis`: soft labels have its
// shape; hard ones have 1 at the axis or leave it out, and are int64 or int32.
void check_labels(const OpView& op, std::string_view scores_slot, int axis, bool soft);

}  // namespace trireme
