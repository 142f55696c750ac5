// Drops nodes whose results nobody can see.
#include "compile/passes.h"

namespace trireme {

bool prune_unobservable(Graph& graph, const Target&) {
  std::vector<bool> seen = graph.outliving();  // values somebody needs

  std::vector<bool> keep(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const OpTraits& trait = node.schema->trait();
    bool needed = trait.effect || trait.host || trait.can_fail || !node.regions.empty();
    for (int value : node.outs) needed |= value >= 0 && seen[value];
    if (!needed) continue;
    keep[n] = true;
    for (int value : node.ins) {
      if (value >= 0) seen[value] = true;
    }
  }
  return graph.keep_nodes(keep);
}

}  // namespace trireme
