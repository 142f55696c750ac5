// Steps of parameters and of optimizer state become one node per kind.
//
// A step is a node that only makes the next versions of variables that outlive the graph. Steps are
// of one kind when they come from the same ops ("adam", "scale+sum+momentum"). A group stands where
// its last member stood: the earlier ones move down to it. They may, as long as nobody in between
// reads what they write. Moving keeps what they read alive for longer, so a step joins only where
// that is there before the group's first member anyway, as gradients are: optimizer ops follow the
// whole backward part. Where steps are made one after another out of large values of their own, as
// lamb's are, each stays alone and the memory of the next is that of the one before.
#include <algorithm>
#include <map>
#include <set>

#include "compile/passes.h"

namespace trireme {
namespace {

class Grouper {
 public:
  explicit Grouper(Graph& graph)
      : graph_(graph), outlives_(graph.values.size(), false), written_by_(graph.values.size(), -1) {
    for (const auto& state : graph.states) {
      if (state.exit >= 0) outlives_[state.exit] = true;
    }
    for (int value : graph.kept) outlives_[value] = true;
  }

  bool run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) look_at(static_cast<int>(n));
    const bool found = std::any_of(groups_.begin(), groups_.end(),
                                   [](const Group& group) { return group.nodes.size() > 1; });
    if (found) rewrite();
    return found;
  }

 private:
  struct Group {
    std::vector<int> nodes;
    std::set<int> reads, overwrites;  // values
  };

  void look_at(int n) {
    const Node& node = graph_.nodes[n];
    if (is_barrier(node)) {
      open_.clear();
      return;
    }
    for (int value : node.ins) {
      if (value >= 0 && written_by_[value] >= 0) close(written_by_[value]);
    }
    if (!is_step(node)) return;
    const std::string& kind = node.origin->op_type;
    const auto open = open_.find(kind);
    if (open == open_.end() || !may_join(node, groups_[open->second])) {
      open_[kind] = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    join(n, open_[kind]);
  }

  // Nobody joins it any more.
  void close(int group) {
    std::erase_if(open_, [&](const auto& entry) { return entry.second == group; });
  }

  // Every result is the last version of a variable that outlives the graph, made in place of the
  // one that the graph begins with.
  bool is_step(const Node& node) const {
    if (!node.origin || node.schema->trait().random || node.schema->trait().can_fail) return false;
    const auto plain = [&](int value) {
      const ValueInfo& info = graph_.values[value].info;
      return info.type == VarType::lod_tensor &&
             (info.dtype == DType::float32 || info.dtype == DType::float64);
    };
    for (const auto* values : {&node.ins, &node.outs}) {
      for (int value : *values) {
        if (value >= 0 && !plain(value)) return false;
      }
    }
    std::set<int> stepped;
    for (const auto& [in, out] : in_place_pairs(node)) {
      const Value& before = graph_.values[node.ins[in]];
      const Value& after = graph_.values[node.outs[out]];
      if (before.node < 0 && before.info.name == after.info.name && outlives_[node.outs[out]]) {
        stepped.insert(node.outs[out]);
      }
    }
    return !stepped.empty() && std::all_of(node.outs.begin(), node.outs.end(), [&](int value) {
      return value < 0 || stepped.contains(value);
    });
  }

  bool may_join(const Node& node, const Group& group) const {
    for (int value : node.ins) {
      if (value < 0) continue;
      if (group.overwrites.contains(value)) return false;
      const bool number = graph_.values[value].info.shape.numel() == Dim(1);
      if (!number && graph_.values[value].node > group.nodes.front()) return false;
    }
    const auto pairs = in_place_pairs(node);
    return std::none_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return group.reads.contains(node.ins[pair.first]);
    });
  }

  void join(int n, int number) {
    Group& group = groups_[number];
    const Node& node = graph_.nodes[n];
    group.nodes.push_back(n);
    group.reads.insert(node.ins.begin(), node.ins.end());
    for (const auto& [in, out] : in_place_pairs(node)) group.overwrites.insert(node.ins[in]);
    for (int value : node.outs) {
      if (value >= 0) written_by_[value] = number;
    }
  }

  Node made_of(const Group& group) const {
    Node made;
    made.schema = &op_table().get("p.group");
    made.attrs = std::make_shared<const Attrs>();
    made.origin = graph_.nodes[group.nodes.back()].origin;
    for (int n : group.nodes) {
      const Node& node = graph_.nodes[n];
      std::vector<int> in_at(node.ins.size(), -1), out_at(node.outs.size(), -1);
      for (size_t i = 0; i < node.ins.size(); ++i) {
        if (node.ins[i] < 0) continue;
        in_at[i] = static_cast<int>(made.ins.size());
        made.ins.push_back(node.ins[i]);
      }
      for (size_t i = 0; i < node.outs.size(); ++i) {
        if (node.outs[i] < 0) continue;
        out_at[i] = static_cast<int>(made.outs.size());
        made.outs.push_back(node.outs[i]);
      }
      for (const auto& [in, out] : in_place_pairs(node)) {
        made.may_share.emplace_back(in_at[in], out_at[out]);
      }
      made.members.push_back(node);
    }
    made.in_counts = {static_cast<int>(made.ins.size())};
    made.out_counts = {static_cast<int>(made.outs.size())};
    return made;
  }

  void rewrite() {
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (const Group& group : groups_) {
      if (group.nodes.size() < 2) continue;
      Node made = made_of(group);
      for (int n : group.nodes) keep[n] = n == group.nodes.back();
      graph_.nodes[group.nodes.back()] = std::move(made);
    }
    graph_.keep_nodes(keep);
  }

  Graph& graph_;
  std::vector<bool> outlives_;   // by value
  std::vector<int> written_by_;  // by value: a group, -1 for what is written elsewhere
  std::vector<Group> groups_;
  std::map<std::string, int> open_;  // by kind: the group that the next may join
};

}  // namespace

bool group_updates(Graph& graph, const Target&) { return Grouper(graph).run(); }

}  // namespace trireme
