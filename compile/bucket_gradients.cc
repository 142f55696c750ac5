// Gradients that replicas sum come to stand one behind the other: one long sum instead of many.
#include <map>
#include <set>

#include "compile/passes.h"

namespace trireme {
namespace {

// Its memory is the frame's from the beginning, and its size is known.
bool has_fixed_memory(const Graph& graph, int value) {
  const ValueInfo& info = graph.values[value].info;
  const int node = graph.values[value].node;
  return info.type == VarType::lod_tensor && info.shape.known() && info.lod_level == 0 &&
         (info.dtype == DType::float32 || info.dtype == DType::float64) && node >= 0 &&
         !graph.nodes[node].schema->trait().host && graph.nodes[node].regions.empty();
}

}  // namespace

bool bucket_gradients(Graph& graph, const Target&) {
  if (!graph.replicated) return false;
  const std::set<int> gradients(graph.kept.begin(), graph.kept.end());  // as they are made
  std::map<DType, std::vector<int>> buckets;
  for (int value : gradients) {
    if (has_fixed_memory(graph, value)) buckets[graph.values[value].info.dtype].push_back(value);
  }
  graph.buckets.clear();
  for (auto& [dtype, values] : buckets) {
    if (values.size() > 1) graph.buckets.push_back(std::move(values));
  }
  return !graph.buckets.empty();
}

}  // namespace trireme
