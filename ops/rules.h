// Shape rules and gradient helpers that several families share.
#pragma once

#include <cstdint>
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

// X? as an input that must be dense: SelectedRows and arrays are refused by name.
void require_dense(const OpView& op, std::string_view slot);

}  // namespace trireme
