// What sequence rows share: reading LoD, moving rows by a map, samples with sequences.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// The offsets of an operand's last LoD level; null while the program is built. An operand that is
// known to have no sequences is an Error that says how to feed them.
const std::vector<int64_t>* sequence_offsets(const OpView& op, std::string_view slot, size_t i = 0);
// The same where a kernel is made: they must be there.
std::vector<int64_t> bound_offsets(const KernelSite& site, std::string_view slot, size_t i = 0);
Error no_sequences(const OpView& op, std::string_view slot, size_t i = 0);

// Elements in one row of a shape.
int64_t row_width(const Shape& shape);

// Says how an output's rows group: `lod` when bound, `level` while the program is built.
void set_lod(OpView& op, std::string_view slot, Lod lod, int level, size_t i = 0);
// All levels but the last, which an op has used up.
Lod outer_levels(const Lod& lod);

// Row r of the output is row map[r] of the input; kNoRow gives zeros.
using RowMap = std::vector<int64_t>;
inline constexpr int64_t kNoRow = -1;
BoundKernel gather_rows(int in, int out, RowMap map);  // any element type
// The other way round: row r of the input is added to row map[r] of the output.
KernelMake add_rows_back(std::string in, std::string out, RowMap (*map)(const KernelSite& site));

// A float64 tensor of `rows` random rows in random sequences, some empty; two levels if asked.
struct SequenceDraw {
  int64_t sequences = 3;
  int levels = 1;
  bool allow_empty = true;
};
Tensor draw_sequences(Draw& draw, std::vector<int64_t> row_shape, const SequenceDraw& wanted = {});

}  // namespace trireme
