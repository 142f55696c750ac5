// Tile programs: a chain of elementwise steps run on pieces that stay in the first-level cache.
//
// One interpreter runs every program. A step rounds as the primitive of its name does when it runs
// alone over whole tensors, so a program gives the bits of its steps run one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trireme {

// Elements of a tile: five to eight of them fit a first-level cache of 32 KB.
inline constexpr int64_t kTile = 1024;

enum class TileOp : uint8_t {
  // one operand
  copy,
  neg,
  abs,
  sign,
  square,
  exp,
  log,
  log1p,
  sqrt,
  rsqrt,
  reciprocal,
  tanh,
  sigmoid,
  sin,
  cos,
  erf,
  floor,
  ceil,
  round,
  // two operands
  add,
  sub,
  mul,
  div,
  pow,
  max,
  min,
  mod,
  floordiv,
  // two operands, the result is a mask
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  // of masks
  mask_not,
  mask_and,
  mask_or,
  mask_xor,
  // a mask and two operands
  select,
};

// The step that does what a primitive ("p.add") does to float32 numbers and to masks.
std::optional<TileOp> tile_op(std::string_view primitive);
int tile_operands(TileOp op);
bool makes_mask(TileOp op);
bool takes_masks(TileOp op);  // all operands are masks; select takes one mask, its first operand

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
