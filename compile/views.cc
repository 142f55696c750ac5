#include "compile/views.h"

#include <numeric>
#include <set>

namespace trireme {

bool renames(const Node& node) {
  static const std::set<std::string, std::less<>> kRenaming = {
      "p.reshape", "p.reshape_like", "p.align",          "p.unsqueeze",
      "p.squeeze", "p.cast",         "p.broadcast_like", "p.sum_to_like"};
  return kRenaming.contains(node.schema->type());
}

std::vector<int> places_in_segment(const Plan& plan, int segment,
                                   const std::vector<ValueInfo>& facts) {
  std::vector<int> place(plan.slots.size());
  std::iota(place.begin(), place.end(), 0);
  std::vector<int> writes(plan.slots.size(), 0);
  for (const Node& node : plan.graph.nodes) {
    for (int value : node.outs) {
      if (value >= 0) ++writes[plan.slot_of[value]];
    }
  }
  const auto fits = [&](int slot) {
    return writes[slot] == 1 && plan.lifetimes[slot].segment == segment;
  };
  const Segment& range = plan.segments[static_cast<size_t>(segment)];
  for (int i = range.begin; i < range.end; ++i) {
    const Node& node = plan.graph.nodes[plan.instructions[i].node];
    if (!renames(node)) continue;
    const int in = node.ins[0], out = node.outs[0];
    const int from = plan.slot_of[in], to = plan.slot_of[out];
    if (from == to || !fits(from) || !fits(to)) continue;
    if (facts[in].dtype != facts[out].dtype || facts[in].shape.numel() != facts[out].shape.numel())
      continue;
    place[to] = place[from];
  }
  return place;
}

}  // namespace trireme
