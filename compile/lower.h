// L0 to L1: reads a program's ops in order, turns names into versions, bodies into primitives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/graph.h"
#include "ir/program.h"

namespace trireme {

// A feed as it will arrive: type and rank are fixed while compiling, and those extents that the
// program declares; the others are unknown until a plan is bound.
struct FeedFacts {
  DType dtype = DType::float32;
  Shape shape;
  int lod_level = 0;
  VarType type = VarType::lod_tensor;
};

struct LowerRequest {
  std::map<std::string, FeedFacts> feeds;
  std::vector<std::string> fetches;
  bool sync_batch_norm = false;  // batch_norm runs as sync_batch_norm
};

// Errors carry the op and the user's line: unknown op, a variable nobody wrote, a data variable
// that is read but not fed, a fetch of a name that does not exist.
Graph lower(const Program& program, const LowerRequest& request);

}  // namespace trireme
