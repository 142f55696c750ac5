// Programs for ranks that are equal: nccl2 (ids only) and collective (all-reduce ops).
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "transpiler/config.h"

namespace trireme {

struct Ranks {
  std::vector<std::string> endpoints;
  int rank = 0;
  std::string current_endpoint;
  int count() const { return static_cast<int>(endpoints.size()); }
};

// Appends gen_nccl_id to the startup program; the main program is only marked.
void make_nccl2(Program& startup, const DistributeTranspilerConfig& config, const Ranks& ranks);

// Gradients are summed over all ranks before they update.
void make_grad_allreduce(Program& main, Program& startup, int rings, const Ranks& ranks);
// Each rank updates its own parameters; after every step they are averaged.
void make_local_sgd(Program& main, Program& startup, int rings, const Ranks& ranks);
// Ranks are threads of one process.
void make_multi_thread(Program& main, Program& startup, int rings, int ranks);

}  // namespace trireme
