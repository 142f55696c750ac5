// Indices that ops read from tensors: either width, checked against the dimension they name.
#pragma once

#include "ops/rules.h"

namespace trireme {

// Indices of either width, with their check.
class Indices {
 public:
  Indices(const Tensor& tensor, const char* slot)
      : narrow_(tensor.dtype() == DType::int32 ? tensor.data<int32_t>() : nullptr),
        wide_(narrow_ ? nullptr : tensor.data<int64_t>()),
        slot_(slot) {}

  int64_t operator[](int64_t i) const { return narrow_ ? narrow_[i] : wide_[i]; }
  int64_t checked(int64_t i, int64_t extent) const {
    const int64_t index = (*this)[i];
    if (index < 0 || index >= extent) {
      throw Error(ErrorKind::out_of_range, cat(slot_, "[", i, "] is ", index,
                                               " but the dimension has ", extent, " elements"))
          .fix(extent > 0 ? cat("use indices from 0 to ", extent - 1) : "give X elements");
    }
    return index;
  }

 private:
  const int32_t* narrow_;
  const int64_t* wide_;
  const char* slot_;
};

inline void require_index(const OpView& op, const char* slot) {
  const ValueInfo& index = op.in(slot);
  if (!index.known || index.dtype == DType::int32 || index.dtype == DType::int64) return;
  throw Error(ErrorKind::type_mismatch,
              cat(slot, " holds ", name_of(index.dtype), " but must hold int32 or int64"))
      .fix(cat("cast ", slot, " to int64"));
}

// Number of rows an index of shape [n] or [n, 1] names.
inline Dim index_count(const OpView& op, const char* slot) {
  const Shape& index = op.in(slot).shape;
  if (index.rank() == 1 || (index.rank() == 2 && index[1].may_equal(1))) return index[0];
  throw op.error(cat(slot, " has shape ", index)).fix(cat("give ", slot, " the shape [n]"));
}

}  // namespace trireme
