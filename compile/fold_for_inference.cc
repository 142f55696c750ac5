// batch_norm goes into the filter of the convolution before it, where parameters stay as they are.
//
// conv2d, perhaps with a bias, and batch_norm by kept statistics are one convolution with another
// filter and bias; these follow from states alone, so that they are made once. What is added to its
// result, and relu, then go to it as well (fuse_conv_bias).
#include <algorithm>

#include "compile/passes.h"

namespace trireme {
namespace {

bool flag(const Node& node, const char* name) {
  const auto it = node.attrs->find(name);
  return it != node.attrs->end() && attr_as<bool>(it->second, name);
}

bool is_channel_last(const Node& node, const char* name) {
  const auto it = node.attrs->find(name);
  return it != node.attrs->end() && attr_as<std::string>(it->second, name) == "NHWC";
}

bool is_test_norm(const Node& node) {
  if (node.schema->type() != "batch_norm") return false;
  return (flag(node, "is_test") && !flag(node, "trainable_statistics")) ||
         flag(node, "use_global_stats");
}

// conv2d or depthwise_conv2d.
bool makes_images(const Node& node) {
  return node.schema->trait().images == BlockedImages::makes && !node.schema->forward();
}

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = drop_statistics();
    graph_.states_stay = std::all_of(
        graph_.states.begin(), graph_.states.end(),
        [](const auto& state) { return state.entry >= 0 && state.exit == state.entry; });
    if (!graph_.states_stay) return changed;
    is_state_.assign(graph_.values.size(), false);
    for (const auto& state : graph_.states) is_state_[state.entry] = true;
    count_uses();
    keep_.assign(graph_.nodes.size(), true);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      Node& node = graph_.nodes[n];
      if (makes_images(node) && is_state(node.ins[kFilter])) node.decided.stays = changed = true;
      if (is_test_norm(node)) keep_[n] = !fold(node);
    }
    graph_.keep_nodes(keep_);
    put_first();
    return changed;
  }

 private:
  // Statistics that are kept are not written: a run that only reads needs nobody to wait for it.
  bool drop_statistics() {
    bool changed = false;
    for (auto& state : graph_.states) {
      const int writer = state.exit < 0 ? -1 : graph_.values[state.exit].node;
      if (writer < 0 || state.entry < 0 || !is_test_norm(graph_.nodes[writer])) continue;
      const Node& norm = graph_.nodes[writer];
      for (const auto& [in, out] : {std::pair("Mean", "MeanOut"), {"Variance", "VarianceOut"}}) {
        if (norm.ins[operand_position(norm, in)] != state.entry) continue;
        if (norm.outs[result_position(norm, out)] != state.exit) continue;
        graph_.values[state.exit].info.name.clear();  // the variable's memory is not its own now
        state.exit = state.entry;
        changed = true;
        break;
      }
    }
    return changed;
  }

  bool is_state(int value) const { return value >= 0 && is_state_[value]; }

  void count_uses() {
    uses_.assign(graph_.values.size(), 0);
    const auto use = [this](int value) {
      if (value >= 0) ++uses_[value];
    };
    for (const Node& node : graph_.nodes) {
      for (int value : node.ins) use(value);
      for (const Region& region : node.regions) {
        for (const auto& link : region.reads) use(link.outer);
        for (const auto& port : region.ports) {
          use(port.from);
          use(port.like);
        }
      }
    }
    const std::vector<bool> outlives = graph_.outliving();
    for (size_t value = 0; value < uses_.size(); ++value) uses_[value] += outlives[value] ? 1 : 0;
  }

  // Gives the convolution behind its operand what the norm does; false where it cannot be had.
  bool fold(const Node& norm) {
    const int x = norm.ins[operand_position(norm, "X")];
    const int at = graph_.values[x].node;
    if (at < 0 || uses_[x] != 1) return false;
    const Node conv = graph_.nodes[at];
    if (!makes_images(conv) || !conv.decided.stays || conv.decided.relu || conv.ins[kResidual] >= 0)
      return false;
    if (is_channel_last(conv, "data_format") || is_channel_last(norm, "data_layout")) return false;
    if (graph_.info(x).dtype != DType::float32) return false;
    for (size_t i = 0; i < norm.outs.size(); ++i) {  // but for Y nobody reads its results
      if (norm.outs[i] >= 0 && norm.outs[i] != norm.outs[0] && uses_[norm.outs[i]] > 0)
        return false;
    }
    std::vector<int> operands{conv.ins[kFilter]};
    for (const char* slot : {"Scale", "Bias", "Mean", "Variance"}) {
      operands.push_back(norm.ins[operand_position(norm, slot)]);
    }
    if (conv.ins[kBias] >= 0) operands.push_back(conv.ins[kBias]);
    if (!std::all_of(operands.begin(), operands.end(), [this](int v) { return is_state(v); })) {
      return false;
    }
    graph_.origin = norm.origin;
    const std::vector<int> made =
        graph_.emit("p.fold_batch_norm", operands,
                    {{"epsilon", attr_as<float>(norm.attrs->at("epsilon"), "epsilon")}});
    folds_.push_back(std::move(graph_.nodes.back()));
    graph_.nodes.pop_back();
    if (conv.ins[kBias] < 0) folds_.back().ins.push_back(-1);
    Node& joined = graph_.nodes[at];
    joined.ins[kFilter] = made[0];
    joined.ins[kBias] = made[1];
    joined.in_counts[kBias] = 1;
    joined.outs[0] = norm.outs[0];
    graph_.values[joined.outs[0]].node = at;
    if (joined.origin && norm.origin) {
      auto origin = std::make_shared<Origin>(*joined.origin);
      origin->op_type += "+" + norm.origin->op_type;
      joined.origin = std::move(origin);
    }
    return true;
  }

  void put_first() {
    graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(folds_.begin()),
                        std::make_move_iterator(folds_.end()));
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int value : graph_.nodes[n].outs) {
        if (value >= 0) graph_.values[value].node = static_cast<int>(n);
      }
    }
  }

  // Positions of the operands: the rows have no lists.
  static constexpr size_t kFilter = 1, kBias = 2, kResidual = 3;

  Graph& graph_;
  std::vector<bool> is_state_, keep_;
  std::vector<int> uses_;  // by value
  std::vector<Node> folds_;
};

}  // namespace

bool fold_for_inference(Graph& graph, const Target& target) {
  if (!graph.states_stay) return false;
  const bool changed = Folder(graph).run();
  return fuse_conv_bias(graph, target) || changed;
}

}  // namespace trireme
