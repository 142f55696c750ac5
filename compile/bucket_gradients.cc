// Gradients that replicas sum are summed together, and stand one behind the other where their
// memory is fixed: one long sum instead of many.
#include <map>
#include <set>

#include "compile/passes.h"

namespace trireme {
namespace {

// Its memory is the frame's from the beginning, and its size is known.
bool has_fixed_memory(const Graph& graph, int value) {
  const ValueInfo& info = graph.values[value].info;
  const int node = graph.values[value].node;
  return info.shape.known() && info.lod_level == 0 &&
         (info.dtype == DType::float32 || info.dtype == DType::float64) && node >= 0 &&
         !graph.nodes[node].schema->trait().host && graph.nodes[node].regions.empty();
}

// The last of the sums takes over the operands of the others.
void merge(Graph& graph, const std::vector<int>& sums, std::vector<bool>& keep) {
  Node& into = graph.nodes[sums.back()];
  std::map<int, int> summed;  // by gradient, in the order in which they are made
  for (int n : sums) {
    const Node& node = graph.nodes[n];
    for (size_t i = 0; i < node.ins.size(); ++i) summed[node.ins[i]] = node.outs[i];
    keep[n] = n == sums.back();
  }
  into.ins.clear();
  into.outs.clear();
  into.shared.clear();
  for (const auto& [gradient, sum] : summed) {
    into.shared.emplace_back(static_cast<int>(into.ins.size()), static_cast<int>(into.ins.size()));
    into.ins.push_back(gradient);
    into.outs.push_back(sum);
  }
  into.in_counts = into.out_counts = {static_cast<int>(into.ins.size())};
}

}  // namespace

bool bucket_gradients(Graph& graph, const Target& target) {
  if (!graph.replicated) return false;
  std::map<DType, std::vector<int>> sums;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const OpTraits& trait = node.schema->trait();
    if (trait.exchange != Exchange::sum || !trait.effect || node.ins.empty()) continue;
    sums[graph.values[node.ins.front()].info.dtype].push_back(static_cast<int>(n));
  }
  std::set<int> fetched;  // the caller gets their memory
  for (const auto& fetch : graph.fetches) fetched.insert(fetch.value);
  graph.buckets.clear();
  std::vector<bool> keep(graph.nodes.size(), true);
  for (const auto& [dtype, nodes] : sums) {
    if (nodes.size() > 1) merge(graph, nodes, keep);
    std::vector<int> bucket;
    const Node& sum = graph.nodes[nodes.back()];
    for (size_t i = 0; i < sum.ins.size(); ++i) {
      if (has_fixed_memory(graph, sum.ins[i]) && !fetched.contains(sum.outs[i])) {
        bucket.push_back(sum.ins[i]);
      }
    }
    if (bucket.size() > 1 && target.shared_memory) graph.buckets.push_back(std::move(bucket));
  }
  const bool changed = graph.keep_nodes(keep);
  return changed || !graph.buckets.empty();
}

}  // namespace trireme
