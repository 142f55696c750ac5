// One loop of a p.fused node: the steps behind its results of one shape, tile by tile.
#pragma once

#include <memory>
#include <vector>

#include "ops/fused_elementwise.h"
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
    int reg = 0, output = 0;
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

  // Elements [begin, end) of every result.
  void run(const KernelArgs& k, int64_t begin, int64_t end) const;
};

// The loop for the results numbered `outputs`, which have one shape.
FusedLoop make_fused_loop(const KernelSite& site, const FusedProgram& program,
                          const std::vector<int>& outputs);

}  // namespace trireme
