#include "compile/pipeline.h"

#include <algorithm>
#include <array>

#include "compile/passes.h"

namespace trireme {
namespace {

// The whole order. With every pass off, a plan has one instruction per node: the oracle that passes
// are measured by.
constexpr std::array kPipeline = {
    Pass{"merge_equal", merge_equal},
    Pass{"prune_unobservable", prune_unobservable},  // after merging: it leaves nodes nobody reads
};

}  // namespace

std::vector<PassReport> run_passes(Graph& graph, const std::vector<std::string>& off) {
  std::vector<PassReport> reports;
  for (const Pass& pass : kPipeline) {
    if (std::find(off.begin(), off.end(), pass.name) != off.end()) continue;
    const size_t before = graph.nodes.size();
    pass.run(graph);
    reports.push_back({pass.name, before, graph.nodes.size()});
  }
  for (Node& node : graph.nodes) {
    for (Region& region : node.regions) run_passes(*region.graph, off);
  }
  return reports;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : kPipeline) names.emplace_back(pass.name);
  return names;
}

}  // namespace trireme
