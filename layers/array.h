// Tensor arrays, and sequences cut into time steps.
#pragma once

#include <string>
#include <utility>

#include "layers/arguments.h"

namespace trireme::layers {

Var& create_array(DType dtype, SourceLine line = SourceLine::here());  // a variable only; no op
// Element i of the array becomes a copy of x; without an array, a new one is made.
Var& array_write(Var& x, Var& i, Var* array = nullptr, SourceLine line = SourceLine::here());
Var& array_read(Var& array, Var& i, SourceLine line = SourceLine::here());
Var& array_length(Var& array, SourceLine line = SourceLine::here());  // int64 [1]
// The elements concatenated, or stacked; and the extent of each along the axis.
std::pair<Var*, Var*> tensor_array_to_tensor(Var& input, int axis = 1, bool use_stack = false,
                                             const std::string& name = {},
                                             SourceLine line = SourceLine::here());

// The sequences of x by length, longest first.
Var& lod_rank_table(Var& x, int level = 0, SourceLine line = SourceLine::here());
Var& max_sequence_len(Var& rank_table, SourceLine line = SourceLine::here());  // int64 [1]
Var& lod_tensor_to_array(Var& x, Var& table, SourceLine line = SourceLine::here());
Var& array_to_lod_tensor(Var& x, Var& table, SourceLine line = SourceLine::here());
Var& reorder_lod_tensor_by_rank(Var& x, Var& rank_table, SourceLine line = SourceLine::here());
// Rows of sequences that have a step i.
Var& shrink_memory(Var& x, Var& i, Var& table, SourceLine line = SourceLine::here());

// Rows or sequences whose mask is true, and the others.
std::pair<Var*, Var*> split_lod_tensor(Var& input, Var& mask, int level = 0,
                                       SourceLine line = SourceLine::here());
Var& merge_lod_tensor(Var& in_true, Var& in_false, Var& x, Var& mask, int level = 0,
                      SourceLine line = SourceLine::here());

}  // namespace trireme::layers
