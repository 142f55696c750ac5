// One loop of a p.fused node: the steps behind its results of one shape, tile by tile.
#pragma once

#include <memory>
#include <vector>

#include "cpu/tile.h"
#include "ops/loops.h"

namespace trireme {

// Registers are numbered: single numbers first, then tile buffers, then pointers that walk through
// operands and results.
struct FusedLoop {
  struct Number {
    int input = -1;  // an operand of one element; -1: `value`, or a step writes it
    float value = 0;
    bool mask = false;
  };
  struct Load {
    int reg = 0, input = 0;
    bool mask = false;
    std::shared_ptr<const Walk<1>> walk;  // of an operand that is repeated; null: as it stands
  };
  struct Store {
    int reg = 0;
    int output = 0;  // -1: memory of the thread, for whoever asked
    bool mask = false;
    bool fixed = false;   // one number for the whole result
    bool direct = false;  // the step writes into the result itself
  };

  int64_t count = 0;  // elements of each result
  std::vector<Number> numbers;
  std::vector<Load> loads;
  std::vector<Store> stores;
  std::vector<TileStep> once, steps;  // on single numbers, before the tiles; on tiles
  int buffers = 0, pointers = 0;

  int summed = -1;  // the store that holds what is added up; -1: nothing is

  // Elements [begin, end) of every result. Returns where those to be added up stand, until the
  // thread runs another loop.
  const float* run(const KernelArgs& k, int64_t begin, int64_t end) const;
};

// What a register broadcasts to, by the operands that it is made of.
Shape register_shape(const KernelSite& site, const TileProgram& program, int reg);

// The loop for the results numbered `outputs`, all of this shape, and for the sum's operand.
FusedLoop make_fused_loop(const KernelSite& site, const TileProgram& program, const Shape& shape,
                          const std::vector<int>& outputs, bool sum);

}  // namespace trireme
