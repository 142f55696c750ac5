// The order of the passes, and the loop that runs and checks them.
#include "compile/pipeline.h"

#include <algorithm>
#include <array>

#include "compile/graph_check.h"
#include "compile/passes.h"
#include "compile/place_values.h"
#include "core/progress.h"
#include "core/text.h"

namespace trireme {
namespace {

// The whole order. With every pass off, a plan has one instruction per node: the oracle that passes
// are measured by.
constexpr std::array kPipeline = {
    Pass{"sum_after_loops", sum_after_loops,
         false},                             // first: the products it makes are like others
    Pass{"fold_constants", fold_constants},  // before merging: it makes constants equal
    Pass{"merge_equal", merge_equal},
    Pass{"prune_unobservable", prune_unobservable},  // after merging: it leaves nodes nobody reads
    Pass{"fuse_conv_bias", fuse_conv_bias},          // before layouts: a bias has plain channels
    Pass{"fold_for_inference", fold_for_inference, false},  // behind it: a bias goes into the fold
    Pass{"assign_layout", assign_layout, false},
    Pass{"fuse_batch_norm", fuse_batch_norm},    // after layouts: it takes images as they stand
    Pass{"fuse_elementwise", fuse_elementwise},  // what it makes no pass looks into
    Pass{"group_updates", group_updates},        // after fusion: it takes whole steps
    Pass{"update_once", update_once},            // after whatever makes nodes of others
    Pass{"bucket_gradients", bucket_gradients},  // last: it says where values stand
};

void run_inner_passes(Graph& graph, const Target& target, const std::vector<std::string>& off) {
  for (Node& node : graph.nodes) {
    for (Region& region : node.regions) {
      run_inner_passes(*region.graph, target, off);
      for (const Pass& pass : kPipeline) {
        if (std::find(off.begin(), off.end(), pass.name) == off.end()) {
          pass.run(*region.graph, target);
        }
      }
    }
  }
}

}  // namespace

std::vector<PassReport> run_passes(Graph& graph, const Target& target,
                                   const std::vector<std::string>& off, const PassWatch& watch) {
  const auto seen = [&](const std::string& pass) {
    if (watch) watch(pass, graph);
  };
  const bool check = check_between_passes.load(std::memory_order_relaxed);
  if (check) check_graph(graph, "after lowering");
  run_inner_passes(graph, target, off);
  if (check) check_graph(graph, "after the passes of sub-blocks");
  seen(kInnerPasses);
  std::vector<PassReport> reports;
  for (const Pass& pass : kPipeline) {
    if (std::find(off.begin(), off.end(), pass.name) != off.end()) continue;
    const size_t before = graph.nodes.size();
    tell_progress("compiling", cat(pass.name, ", ", before, " nodes"), &pass - kPipeline.data(),
                  static_cast<int64_t>(kPipeline.size()));
    const bool changed = pass.run(graph, target);
    if (check) check_graph(graph, pass.name);
    reports.push_back({pass.name, before, graph.nodes.size(), changed});
    seen(pass.name);
  }
  if (target.device != DeviceKind::cpu) {  // of all sub-blocks at once; nothing runs without it
    const size_t before = graph.nodes.size();
    place_values(graph, target);
    if (check) check_graph(graph, "place_values");
    reports.push_back({"place_values", before, graph.nodes.size(), true});
    seen("place_values");
  }
  return reports;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : kPipeline) names.emplace_back(pass.name);
  return names;
}

std::vector<std::string> passes_that_round() {
  std::vector<std::string> names;
  for (const Pass& pass : kPipeline) {
    if (!pass.keeps_bits) names.emplace_back(pass.name);
  }
  return names;
}

}  // namespace trireme
