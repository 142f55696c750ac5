// Tile programs: chains of elementwise steps over tensors of float32 and masks (on devices that
// take them, of halves too), as a pass writes them and any device may emit them.
//
// A step rounds as the primitive whose row names it does when it runs alone over whole tensors, so
// a program gives the bits of its steps run one by one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/dtype.h"

namespace trireme {

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

constexpr int tile_operands(TileOp op) {
  if (op == TileOp::select) return 3;
  return op < TileOp::add || op == TileOp::mask_not ? 1 : 2;
}
constexpr bool makes_mask(TileOp op) { return op >= TileOp::eq && op <= TileOp::mask_xor; }
// All operands are masks; select takes one mask, its first operand.
constexpr bool takes_masks(TileOp op) { return op >= TileOp::mask_not && op <= TileOp::mask_xor; }

// What a p.fused node computes. Registers: first the node's operands, then the constants, then one
// per step. Steps are in an order in which every operand is there before it is read.
struct TileProgram {
  struct Step {
    TileOp op = TileOp::copy;
    int in[3] = {-1, -1, -1};       // registers
    DType rounds = DType::float32;  // what the result is rounded to; a half on some devices only
  };
  std::vector<float> constants;
  std::vector<Step> steps;
  std::vector<int> results;  // by result of the node: a register; -1: the sum's
  // A register added up along some axes, as the last result of the node.
  struct Sum {
    int reg = -1;  // -1: there is none
    bool mean = false;
    std::vector<int> axes;
  };
  Sum sum;
  // (operand, result) that may be the same memory: of one shape, the operand read by no result of
  // another shape.
  std::vector<std::pair<int, int>> in_place;
};

}  // namespace trireme
