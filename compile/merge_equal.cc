#include <map>
#include <sstream>

#include "compile/passes.h"

namespace trireme {
namespace {

// Equal texts compute equal values. Operands stand for themselves by number; roles, lines and names
// of variables do not change what is computed.
std::string signature(const Node& node) {
  std::ostringstream text;
  text << node.schema->type();
  // What is computed again on purpose must not be merged with the first time.
  if (node.origin) text << "@" << node.origin->recompute;
  for (size_t s = 0; s < node.in_counts.size(); ++s) text << (s ? "," : "(") << node.in_counts[s];
  for (int value : node.ins) text << " %" << value;
  for (int value : node.outs) text << (value < 0 ? " -" : " +");
  for (const auto& [name, value] : *node.attrs) {
    if (!is_common_attr(name))
      text << " " << name << "=" << value.index() << ":" << to_string(value);
  }
  return text.str();
}

bool can_merge(const Node& node) {
  const OpTraits& trait = node.schema->trait();
  return !trait.effect && !trait.host && !trait.random && !trait.can_fail && node.regions.empty() &&
         node.shared.empty();
}

}  // namespace

bool merge_equal(Graph& graph) {
  std::vector<int> stands_for(graph.values.size());
  for (size_t v = 0; v < stands_for.size(); ++v) stands_for[v] = static_cast<int>(v);
  std::vector<bool> keep(graph.nodes.size(), true);
  std::map<std::string, size_t> first;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    for (int& value : node.ins) {
      if (value >= 0) value = stands_for[value];
    }
    for (Region& region : node.regions) {
      for (auto& link : region.reads) link.outer = stands_for[link.outer];
    }
    if (!can_merge(node)) continue;
    const auto [it, fresh] = first.try_emplace(signature(node), n);
    if (fresh) continue;
    keep[n] = false;
    const Node& same = graph.nodes[it->second];
    for (size_t i = 0; i < node.outs.size(); ++i) {
      if (node.outs[i] >= 0) stands_for[node.outs[i]] = same.outs[i];
    }
  }
  for (auto& fetch : graph.fetches) fetch.value = stands_for[fetch.value];
  for (auto& state : graph.states) {
    if (state.exit >= 0) state.exit = stands_for[state.exit];
  }
  for (int& value : graph.kept) value = stands_for[value];
  return graph.keep_nodes(keep);
}

}  // namespace trireme
