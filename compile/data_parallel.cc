// Orders a training graph for replicas: what each computes from its share of the batch, the sums of
// gradients over all of them, the update.
#include "compile/data_parallel.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "ir/body.h"

namespace trireme {
namespace {

constexpr int kLossGradientRole = op_role::kBackward | op_role::kLoss;

bool updates(const Node& node) {
  return (node.origin->role & (op_role::kOptimize | op_role::kLrSched)) != 0;
}

const OpTraits& traits_of(const Origin& origin) {
  static const OpTraits none;
  return origin.row ? origin.row->trait() : none;
}

// Replicas meet between instructions of the whole program; those of a loop or branch have no
// common place: not for values they exchange, not for gradients that an update would take. What a
// program exchanges by itself it exchanges once a process.
void refuse_exchanges(const Graph& graph, bool inner) {
  for (const Node& node : graph.nodes) {
    const bool updated = node.origin && node.origin->role == op_role::kOptimize;
    if (node.schema->trait().exchange == Exchange::by_ring) {
      throw Error(ErrorKind::unimplemented,
                  cat(node.origin->op_type,
                      " exchanges values of one device of each process, and this run has several "
                      "devices"))
          .at(node.origin->line)
          .fix("run it on one place a process, without with_data_parallel");
    }
    if (inner && (updated || node.schema->trait().exchange != Exchange::none)) {
      throw Error(ErrorKind::unimplemented,
                  cat(node.origin->op_type,
                      " inside a loop or branch cannot take what other devices computed"))
          .at(node.origin->line)
          .fix("move it out of the block, or run without with_data_parallel");
    }
    for (const Region& region : node.regions) refuse_exchanges(*region.graph, true);
  }
}

class ReplicaMaker {
 public:
  ReplicaMaker(Graph& graph, LossGradient loss_gradient, bool others)
      : graph_(graph), loss_gradient_(loss_gradient), others_(others) {}

  ReplicaFeeds run() {
    refuse_exchanges(graph_, false);
    of_update_.assign(graph_.values.size(), false);
    for (const auto& state : graph_.states) entries_.insert(state.entry);
    std::vector<Node> nodes = std::move(graph_.nodes), update;
    graph_.nodes.clear();
    for (Value& value : graph_.values) value.node = -1;
    for (const Node& node : nodes) note_update(node);
    for (Node& node : nodes) {
      updates(node) ? update.push_back(std::move(node)) : take_part(std::move(node));
    }
    for (const Node& node : update) find_crossing(node);
    if (!update.empty()) sum_gradients();
    for (Node& node : update) {
      map_operands(node, [this](int value) { return now(value); });
      append(std::move(node));
    }
    for (auto& fetch : graph_.fetches) fetch.value = now(fetch.value);
    for (auto& state : graph_.states) {
      if (state.exit >= 0 && state.exit != state.entry) state.exit = now(state.exit);
    }
    for (const auto& state : graph_.states) {
      const bool written = state.exit >= 0 && state.exit != state.entry;
      if (written && !of_update(state.exit)) feeds_.own_states.push_back(state.name);
    }
    graph_.replicated = true;
    graph_.across_processes = others_;
    return std::move(feeds_);
  }

 private:
  void note_update(const Node& node) {
    if (!updates(node)) return;
    origin_ = node.origin;
    for (int value : node.outs) {
      if (value >= 0) of_update_[static_cast<size_t>(value)] = true;
    }
  }

  // The loss gradient may be a value of its own and, where the update reads it, summed.
  int now(int value) const {
    const auto found = stands_for_.find(value);
    return found == stands_for_.end() ? value : now(found->second);
  }

  bool of_update(int value) const {
    return static_cast<size_t>(value) < of_update_.size() && of_update_[static_cast<size_t>(value)];
  }

  // Forward and backward, on a share of the batch.
  void take_part(Node node) {
    for (int value : node.ins) {
      if (value < 0 || !of_update(value)) continue;
      throw Error(ErrorKind::unimplemented,
                  cat(node.origin->op_type, " in the forward part reads ",
                      graph_.values[value].info.name, ", which the update part computes once"))
          .at(node.origin->line)
          .fix("compute it by ops outside the optimizer and the learning-rate schedule");
    }
    map_operands(node, [this](int value) { return now(value); });
    const bool loss_op = node.origin->role == (op_role::kForward | op_role::kLoss);
    if (loss_op && traits_of(*node.origin).averages && feeds_.averaged_value < 0) {
      feeds_.averaged_value = node.ins.front();
    }
    if (node.origin->role == kLossGradientRole && traits_of(*node.origin).fills) {
      weigh_loss(std::move(node));
    } else {
      append(std::move(node));
    }
  }

  // The loss gradient is 1 on one device; here each replica has its own.
  void weigh_loss(Node node) {
    const int value = node.outs.front();
    const std::string name = graph_.values[value].info.name;
    if (loss_gradient_ == LossGradient::fed) {
      const auto fed = std::find_if(graph_.feeds.begin(), graph_.feeds.end(),
                                    [&](const auto& feed) { return feed.name == name; });
      if (fed == graph_.feeds.end()) {
        throw Error(cat("gradient_scale_strategy is Customized, but ", name, " is not fed"))
            .fix(cat("feed '", name, "': one value per device"));
      }
      stands_for_[value] = fed->value;
      return;
    }
    if (loss_gradient_ == LossGradient::weighted && feeds_.averaged_value >= 0 &&
        (others_ || is_late())) {
      graph_.origin = node.origin;
      append(std::move(node));
      const int weighted = (Expr(&graph_, value) * share_of(feeds_.averaged_value)).id();
      graph_.values[weighted].info.name = name;
      stands_for_[value] = weighted;
      return;
    }
    feeds_.loss_weight = static_cast<int>(graph_.feeds.size());
    graph_.feeds.push_back({name, value});
  }

  // Behind a loop, or where shapes follow from values, sizes may be known only when the run is
  // there.
  bool is_late() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [](const Node& node) {
      const OpTraits& trait = node.schema->trait();
      return (trait.host && !trait.inferred_ahead) || !trait.reads_values.empty() ||
             !node.regions.empty();
    });
  }

  Expr share_of(int value) {
    const Expr x(&graph_, value);
    std::vector<int> axes(static_cast<size_t>(x.rank()));
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
    const Expr count = reduce_sum(full_like(x, 1.0), axes);
    return count / emit("p.sum_replicas", {count});
  }

  // Values that replicas compute and the update reads: gradients, or states (read from the scope).
  void find_crossing(const Node& node) {
    for (int value : node.ins) {
      if (value < 0 || of_update(value) || entries_.contains(value)) continue;
      const int read = now(value);
      const auto feed = std::find_if(graph_.feeds.begin(), graph_.feeds.end(),
                                     [&](const auto& fed) { return fed.value == read; });
      if (feed != graph_.feeds.end()) {
        const int number = static_cast<int>(feed - graph_.feeds.begin());
        if (std::find(feeds_.common.begin(), feeds_.common.end(), number) == feeds_.common.end())
          feeds_.common.push_back(number);
        continue;
      }
      const ValueInfo& info = graph_.values[read].info;
      if (info.name.find(kGradSuffix) == std::string::npos) {
        throw Error(ErrorKind::unimplemented,
                    cat(node.origin->op_type, " of the update part reads ",
                        info.name.empty() ? "a value" : info.name,
                        ", which every replica computes for itself and which is no gradient"))
            .at(node.origin->line)
            .fix("run this program without with_data_parallel");
      }
      if (met_.insert(read).second) gradients_.push_back(read);
    }
  }

  // Where there are none, replicas still meet before the update.
  void sum_gradients() {
    for (int value : gradients_) {
      const bool rows = graph_.values[value].info.type == VarType::selected_rows;
      if (rows) add_sum("p.sum_row_gradients", {value});
    }
    for (int value : gradients_) {
      if (graph_.values[value].info.type != VarType::selected_rows) {
        add_sum("p.sum_gradients", {value});
      }
    }
    if (graph_.nodes.empty() || graph_.nodes.back().schema->type() != "p.sum_gradients") {
      add_sum("p.sum_gradients", {});
    }
  }

  void add_sum(std::string_view primitive, const std::vector<int>& values) {
    Node sum;
    sum.schema = &op_table().get(primitive);
    sum.attrs = std::make_shared<Attrs>();
    sum.ins = values;
    sum.origin = origin_;
    for (int value : values) {
      const int node = graph_.values[value].node;
      if (node >= 0) sum.origin = graph_.nodes[node].origin;
      const int summed = graph_.add_value(graph_.values[value].info);
      if (graph_.values[value].info.type == VarType::selected_rows) {
        graph_.values[summed].info.shape[0] = Dim();
      } else {
        sum.shared.emplace_back(static_cast<int>(sum.outs.size()),
                                static_cast<int>(sum.outs.size()));
      }
      sum.outs.push_back(summed);
      stands_for_[value] = summed;
    }
    sum.in_counts = {static_cast<int>(values.size())};
    sum.out_counts = {static_cast<int>(values.size())};
    append(std::move(sum));
  }

  void append(Node node) {
    for (int value : node.outs) {
      if (value >= 0) graph_.values[value].node = static_cast<int>(graph_.nodes.size());
    }
    graph_.nodes.push_back(std::move(node));
  }

  Graph& graph_;
  const LossGradient loss_gradient_;
  const bool others_;
  ReplicaFeeds feeds_;
  std::shared_ptr<const Origin> origin_;  // of the update's last op
  std::vector<bool> of_update_;           // by value
  std::set<int> entries_;                 // of states
  std::vector<int> gradients_;            // as the update reads them
  std::set<int> met_;                     // the same
  std::map<int, int> stands_for_;         // what is read in place of a value
};

}  // namespace

ReplicaFeeds make_replica(Graph& graph, LossGradient loss_gradient, bool others) {
  return ReplicaMaker(graph, loss_gradient, others).run();
}

}  // namespace trireme
