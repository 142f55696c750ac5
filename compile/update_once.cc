// Where replicas share their memory, parameters are there once, and so one replica updates them.
#include <algorithm>

#include "compile/passes.h"

namespace trireme {

bool update_once(Graph& graph, const Target& target) {
  if (!graph.replicated || !target.shared_memory) return false;
  const auto sums = [](const Node& node) {
    return node.schema->trait().exchange != Exchange::none && node.schema->trait().effect;
  };
  const auto last = std::find_if(graph.nodes.rbegin(), graph.nodes.rend(), sums);
  if (last == graph.nodes.rend()) return false;
  for (auto node = graph.nodes.rbegin(); node != last; ++node) node->by_first = true;
  for (Node& node : graph.nodes) {
    if (sums(node)) node.decided.to_first = true;
  }
  return true;
}

}  // namespace trireme
