// Shape rules and gradient helpers that several families share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// The LoD of the first of `slots` that has one and as many rows as `out_slot`.
void carry_lod(OpView& op, std::string_view out_slot, const std::vector<std::string>& slots);

// Axes counted from the front, ascending, each once; no axes means all of them.
std::vector<int> normal_axes(const OpView& op, const std::vector<int32_t>& axes, int rank,
                             std::string_view name);

// `shape` with 0 standing for the extent at the same place and one -1 for what is left.
Shape resolve_shape(const OpView& op, const Shape& from, const std::vector<int64_t>& shape);

// Numbers held by an input that the row lists in reads_values; empty while the program is built.
std::vector<int64_t> read_ints(const OpView& op, std::string_view slot, size_t i = 0);

// A wire dtype number as an element type; an Error naming the attribute otherwise.
DType dtype_attr(const OpView& op, std::string_view name);

// Refuses SelectedRows and arrays in a slot that takes tensors.
void require_dense(const OpView& op, std::string_view slot);
// Refuses what is no tensor array.
void require_array(const OpView& op, std::string_view slot);
// Refuses whole numbers and bool in a slot that takes real numbers.
void require_floating(const OpView& op, std::string_view slot);

// Refuses bool in a slot that takes numbers.
void require_numbers(const OpView& op, std::string_view slot);
// Refuses several numbers in a slot that takes one; an absent slot is fine.
void require_one_number(const OpView& op, std::string_view slot);

// The shape rule of most functions of one real variable: Out is like X, LoD included.
ShapeRule floating_like_x();

// Gives the narrower of two operands its place in the wider one, as fluid's axis wants it; then
// they broadcast as numpy does. Trailing extents of 1 that would stand past the end are dropped.
void place_at_axis(Expr& x, Expr& y, int axis);

// Of results that follow no operand's numbers, only their shapes.
void no_gradient(Vjp& v);
// Gradients of gradient ops that are kernels. Where the op is linear in these slots, the gradient
// of its gradient is the op itself; `attrs` make a linear one of it (padding with zeros).
VjpRule linear_gradient(std::vector<std::string> slots, Attrs attrs = {});
// Where it is linear in each of two slots: two terms of the op, and its gradient with the operands
// exchanged. A slot "Bias" is what is added to the product.
VjpRule bilinear_gradient(std::string x, std::string y);
// The same as an op of its own, of a row whose first two inputs these are.
void bilinear_second_gradient(Registry& ops, OpSchema& row);

// `x` with elements nearer than 0.02 to one of `kinks` moved away from it, for gradient checks.
Tensor away_from(Tensor x, std::initializer_list<double> kinks);

}  // namespace trireme
