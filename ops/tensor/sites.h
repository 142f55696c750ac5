// What an op's attributes and index operands come to at one site, for kernels of every device:
// axes, permutations, parts of a tensor.
#pragma once

#include <vector>

#include "ir/op_view.h"
#include "ops/loops.h"

namespace trireme {

// concat, split: from the attribute or from AxisTensor; -1 while a tensor's value is not there yet.
int joining_axis(const OpView& op, int rank);
// stack, unstack: where the pieces' dimension stands in the whole.
int stack_axis(const OpView& op, int rank_of_whole);

// transpose: the axis of X that each dimension of the result is.
std::vector<int> permutation(const OpView& op, int rank);

// A part of a tensor: its extents, and where its elements lie in the whole.
struct Part {
  Shape shape;
  Strides steps{};
  int64_t start = 0;
};
// slice, strided_slice.
Part sliced(const OpView& op, bool strided);

}  // namespace trireme
