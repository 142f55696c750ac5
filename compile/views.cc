// Finds results that share memory with an operand, and proves by replay that none is lost by it.
#include "compile/views.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"

namespace trireme {
namespace {

// Whether the result, written element by element, may stand where the operand stands: a row
// promises that for equal shapes. A fused node does while it has one loop: then each tile is read
// before it is written.
bool may_overwrite(const Node& node, int in, int out, const std::vector<ValueInfo>& facts) {
  const auto like_operand = [&](int value) {
    return facts[value].shape == facts[in].shape && facts[value].dtype == facts[in].dtype;
  };
  if (!like_operand(out) || std::count(node.ins.begin(), node.ins.end(), in) > 1) return false;
  return std::all_of(node.parts.begin(), node.parts.end(), [&](const Node& part) {
    return std::all_of(part.outs.begin(), part.outs.end(), [&](int value) {
      const bool result = std::find(node.outs.begin(), node.outs.end(), value) != node.outs.end();
      const OpTraits& trait = part.schema->trait();
      const bool sum = trait.sums && trait.like < 0;  // of others the result's shape is asked for
      return !result || (sum ? like_operand(part.ins[0]) : facts[value].shape == facts[in].shape);
    });
  });
}

class AliasFinder {
 public:
  AliasFinder(const Plan& plan, Stretch stretch, const std::vector<ValueInfo>& facts)
      : plan_(plan),
        facts_(facts),
        root_(plan.slots.size()),
        last_(plan.slots.size(), -1),
        writes_(plan.slots.size()) {
    std::iota(root_.begin(), root_.end(), 0);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      for (int value : plan.graph.nodes[plan.instructions[i].node].outs) {
        if (value >= 0) writes_[plan.slot_of[value]].push_back(static_cast<int>(i));
      }
    }
    for (size_t s = 0; s < plan.slots.size(); ++s) {
      const Lifetime& life = plan.lifetimes[s];
      if (life.within(stretch.begin, stretch.end)) last_[s] = life.last;
    }
  }

  std::vector<int> find(int begin, int end) && {
    for (int i = begin; i < end; ++i) {
      if (plan_.instructions[i].late) continue;
      const Node& node = plan_.graph.nodes[plan_.instructions[i].node];
      if (const auto pair = renamed(node)) {
        share_view(i, node.ins[pair->first], node.outs[pair->second]);
      }
      for (const auto& pairs : {in_place_pairs(node), node.may_overwrite}) {
        for (const auto& [in, out] : pairs) share_over(i, node, node.ins[in], node.outs[out]);
      }
    }
    return std::move(root_);
  }

 private:
  bool is_within(int slot) const { return last_[slot] >= 0; }

  void share(int from, int to) {
    root_[to] = root_[from];
    last_[root_[from]] = std::max(last_[root_[from]], last_[to]);
  }

  // Neither is written again, so both go on holding the same.
  void share_view(int i, int in, int out) {
    const int from = plan_.slot_of[in], to = plan_.slot_of[out];
    if (from == to || !is_within(from) || !is_within(to)) return;
    if (writes_[from].back() > i || writes_[to].size() > 1) return;
    const ValueInfo &source = facts_[in], &target = facts_[out];
    if (source.dtype == target.dtype && source.shape.numel() == target.shape.numel())
      share(from, to);
  }

  // All aliases of the operand are read here for the last time.
  void share_over(int i, const Node& node, int in, int out) {
    const int from = plan_.slot_of[in], to = plan_.slot_of[out];
    if (from == to || root_[to] != to || !is_within(from) || !is_within(to)) return;
    if (last_[root_[from]] != i || plan_.lifetimes[from].last != i) return;
    if (writes_[to].front() != i) return;
    const bool read_under_another_name =
        std::any_of(node.ins.begin(), node.ins.end(), [&](int other) {
          return other >= 0 && other != in && root_[plan_.slot_of[other]] == root_[from];
        });
    if (!read_under_another_name && may_overwrite(node, in, out, facts_)) share(from, to);
  }

  const Plan& plan_;
  const std::vector<ValueInfo>& facts_;
  std::vector<int> root_;  // by slot
  std::vector<int> last_;  // by root: the last instruction that reads it; -1: not the stretch's
  std::vector<std::vector<int>> writes_;  // by slot: instructions
};

}  // namespace

std::optional<std::pair<int, int>> renamed(const Node& node) {
  const auto& [from, to] = node.schema->renaming();
  if (from.empty()) return std::nullopt;
  const int in = operand_position(node, from), out = result_position(node, to);
  if (in < 0 || out < 0 || node.ins[in] < 0 || node.outs[out] < 0) return std::nullopt;
  return std::pair(in, out);
}

std::vector<int> alias_roots(const Plan& plan, Stretch stretch,
                             const std::vector<ValueInfo>& facts) {
  return AliasFinder(plan, stretch, facts)
      .find(plan.segments[stretch.begin].begin, plan.segments[stretch.end - 1].end);
}

void check_aliases(const Plan& plan, Stretch stretch, const std::vector<int>& roots) {
  const auto is_within = [&](int slot) {
    return slot >= 0 && plan.lifetimes[slot].within(stretch.begin, stretch.end);
  };
  // By root: how often another value was written there; by slot: at which of these it was, or began
  // to view what is there.
  std::vector<int> written(plan.slots.size(), 0), held_since(plan.slots.size(), -1);
  const auto is_held = [&](int slot) { return held_since[slot] == written[roots[slot]]; };
  const int end = plan.segments[stretch.end - 1].end;
  for (int i = plan.segments[stretch.begin].begin; i < end; ++i) {
    const Node& node = plan.graph.nodes[plan.instructions[i].node];
    for (int value : node.ins) {
      const int slot = value < 0 ? -1 : plan.slot_of[value];
      if (!is_within(slot) || is_held(slot)) continue;
      throw InternalError(cat("instruction ", i, " (", node.schema->type(), ") reads value ", value,
                              ", but its memory in the arena does not hold it any more"));
    }
    const auto pair = renamed(node);
    for (size_t o = 0; o < node.outs.size(); ++o) {
      const int slot = node.outs[o] < 0 ? -1 : plan.slot_of[node.outs[o]];
      if (!is_within(slot)) continue;
      const int viewed =
          pair && pair->second == static_cast<int>(o) ? plan.slot_of[node.ins[pair->first]] : -1;
      const bool view = is_within(viewed) && roots[viewed] == roots[slot] && is_held(viewed);
      if (!view) ++written[roots[slot]];
      held_since[slot] = written[roots[slot]];
    }
  }
  // Taken at the end: what iterations leave, and states written elsewhere.
  const auto check_at_end = [&](int value) {
    const int slot = plan.slot_of[value];
    if (is_within(slot) && !is_held(slot)) {
      throw InternalError(
          cat("the memory of value ", value, " in the arena does not hold it at the end"));
    }
  };
  for (int value : plan.graph.kept) check_at_end(value);
  for (int value : plan.graph.saved) check_at_end(value);
  for (const auto& back : plan.write_backs) check_at_end(back.value);
}

}  // namespace trireme
