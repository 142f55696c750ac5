// Nodes with equal signatures become one: the text of a node says all that it computes.
#include <algorithm>
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
  const Decided& decided = node.decided;
  text << " " << decided.blocks.image << "," << decided.blocks.map << "," << decided.relu;
  return text.str();
}

bool can_merge(const Node& node) {
  const OpTraits& trait = node.schema->trait();
  return !trait.effect && !trait.host && !trait.random && !trait.can_fail && node.regions.empty() &&
         node.shared.empty() && !node.decided.program;
}

// Values that another node overwrites in their slot: each needs a slot to itself.
std::vector<bool> overwritten_values(const Graph& graph) {
  std::vector<bool> overwritten(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (const auto& [in, out] : node.shared) overwritten[node.ins[in]] = true;
  }
  return overwritten;
}

}  // namespace

bool merge_equal(Graph& graph, const Target&) {
  const std::vector<bool> overwritten = overwritten_values(graph);
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
      for (auto& port : region.ports) {
        if (port.from >= 0) port.from = stands_for[port.from];
        if (port.like >= 0) port.like = stands_for[port.like];
      }
    }
    if (!can_merge(node)) continue;
    if (std::any_of(node.outs.begin(), node.outs.end(),
                    [&](int value) { return value >= 0 && overwritten[value]; })) {
      continue;
    }
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
  for (int& value : graph.saved) value = stands_for[value];
  return graph.keep_nodes(keep);
}

}  // namespace trireme
