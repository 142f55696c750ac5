// Follows the first extent of every value through the graph, by the traits of the rows.
#include "compile/equal_shapes.h"

#include <string>

namespace trireme {
namespace {

// Where a slot stands; -1: there is no such slot, or slots before it are lists.
int slot_position(const std::vector<SlotSpec>& slots, std::string_view name) {
  for (size_t s = 0; s < slots.size() && !slots[s].duplicable; ++s) {
    if (slots[s].name == name) return static_cast<int>(s);
  }
  return -1;
}

}  // namespace

EqualShapes::EqualShapes(const Graph& graph) : graph_(graph) {
  for (size_t v = 0; v < graph.values.size(); ++v) first_.push_back(static_cast<int>(v));
  for (const Node& node : graph.nodes) {
    if (!node.regions.empty()) continue;
    for (size_t i = 0; i < node.outs.size(); ++i) {
      if (node.outs[i] < 0) continue;
      if (const int like = first_of(node, i); like >= 0) first_[node.outs[i]] = first_[like];
    }
  }
}

// The operand whose first extent the result has; -1: it cannot be told.
int EqualShapes::first_of(const Node& node, size_t result) const {
  const OpTraits& trait = node.schema->trait();
  if (result == 0 && trait.keeps_rows) return node.ins[0];
  if (result == 0 && trait.like >= 0) return node.ins[static_cast<size_t>(trait.like)];
  if (trait.tile) {
    const int rank = graph_.info(node.outs[result]).shape.rank();
    int found = -1;
    for (int value : node.ins) {
      const Shape& shape = graph_.info(value).shape;
      if (shape.rank() < rank || shape.rank() == 0 || shape[0] == Dim(1)) continue;
      if (found >= 0 && first_[found] != first_[value]) return -1;
      found = value;
    }
    return found;
  }
  if (!node.schema->forward() || result >= node.schema->outputs().size()) return -1;
  // The gradient of an operand is like it.
  const std::string& slot = node.schema->outputs()[result].name;
  if (slot_position(node.schema->outputs(), slot) != static_cast<int>(result)) return -1;
  if (!slot.ends_with(kGradSuffix)) return -1;
  const int at = slot_position(node.schema->inputs(),
                               std::string_view(slot).substr(0, slot.size() - kGradSuffix.size()));
  return at >= 0 ? node.ins[static_cast<size_t>(at)] : -1;
}

bool EqualShapes::same(int a, int b) const {
  if (a == b) return true;
  if (!graph_.info(a).known || !graph_.info(b).known) return false;
  const Shape &x = graph_.info(a).shape, &y = graph_.info(b).shape;
  if (x.rank() != y.rank()) return false;
  for (int d = 0; d < x.rank(); ++d) {
    if (x[d].known() && y[d].known()) {
      if (x[d] != y[d]) return false;
    } else if (d > 0 || first_[a] != first_[b]) {
      return false;
    }
  }
  return true;
}

}  // namespace trireme
