// The CPU's interpreter of tile programs (ir/tile.h): runs a chain of elementwise steps on pieces
// that stay in the first-level cache.
#pragma once

#include <cstdint>
#include <span>

#include "ir/tile.h"

namespace trireme {

// Elements of a tile: five to eight of them fit a first-level cache of 32 KB.
inline constexpr int64_t kTile = 1024;

// Registers are pointers to `n` elements, or to one element where the register's bit in `fixed` is
// set. A mask's elements are int32: all bits set, or none.
struct TileStep {
  TileOp op = TileOp::copy;
  int16_t out = 0;
  int16_t in[3] = {};
  uint8_t fixed = 0;  // bit i: in[i] is one number for the whole tile
};

// A register may be the same memory as an operand of the step that writes it, never overlap it.
void run_tile(std::span<const TileStep> steps, float* const* registers, int64_t n);

// Between masks and tensors of bool.
void mask_from_bools(const bool* from, float* mask, int64_t n);
void bools_from_mask(const float* mask, bool* to, int64_t n);

}  // namespace trireme
