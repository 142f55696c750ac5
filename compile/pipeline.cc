#include "compile/pipeline.h"

#include <algorithm>

namespace trireme {
namespace {

// The whole order. Empty: one instruction per node, which is the oracle that passes are measured
// by.
const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {};
  return passes;
}

}  // namespace

std::vector<PassReport> run_passes(Graph& graph, const std::vector<std::string>& off) {
  std::vector<PassReport> reports;
  for (const Pass& pass : pipeline()) {
    if (std::find(off.begin(), off.end(), pass.name) != off.end()) continue;
    reports.push_back({pass.name, pass.run(graph)});
  }
  return reports;
}

}  // namespace trireme
