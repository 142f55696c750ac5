// p.fused: a chain of elementwise primitives, and one sum behind it, as one node. The pass
// fuse_elementwise writes it.
#pragma once

#include <utility>
#include <vector>

#include "cpu/tile.h"
#include "ir/attribute.h"

namespace trireme {

// What a p.fused node computes. Registers: first the node's operands, then the constants, then one
// per step. Steps are in an order in which every operand is there before it is read.
struct FusedProgram {
  struct Step {
    TileOp op = TileOp::copy;
    int in[3] = {-1, -1, -1};  // registers
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

  Attrs to_attrs() const;
  static FusedProgram from_attrs(const Attrs& attrs);
};

}  // namespace trireme
