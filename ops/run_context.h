// What an op may ask of the run that it is part of.
#pragma once

#include <cstdint>
#include <vector>

#include "core/scope.h"
#include "core/step_scopes.h"

namespace trireme {

// What host ops (control flow, print, readers) and random ops may ask of the run they are part of.
class RunContext {
 public:
  virtual ~RunContext() = default;
  // The op's sub-block, once, on this run's slots. What its gradient reads is added to `keep`;
  // there is nothing to keep where no gradient is computed.
  virtual void run_region(int index, StepScopes* keep = nullptr) = 0;
  // A sub-block whose iterations hand values on by links (RegionLink): begin, any number of
  // iterations, end. `rows`: the length of the sequences that links slice and stack; an iteration
  // reads and writes row `row`.
  struct Iteration {
    int64_t row = 0;
    const std::vector<Variable>* load = nullptr;  // the forward one that this is the gradient of
    StepScopes* keep = nullptr;
  };
  virtual void begin_iterations(int index, int64_t rows) = 0;
  virtual void run_iteration(int index, const Iteration& iteration) = 0;
  virtual void end_iterations(int index) = 0;
  virtual Scope& scope() = 0;
  virtual uint64_t step() const = 0;          // training steps run so far in the scope tree
  virtual uint64_t process_seed() const = 0;  // what seed 0 means
  virtual uint64_t iteration() const = 0;     // of the loops around, 0 outside
  // Where the running op's numbers stand among those of all replicas: by the offset of its rows in
  // the whole batch, or where that says nothing, by the replica's number.
  struct StreamOffset {
    uint64_t before = 0;   // elements of the stream that replicas before this one draw
    uint64_t replica = 0;  // other than 0: joins the seed
  };
  virtual StreamOffset stream_offset() const = 0;
};

}  // namespace trireme
