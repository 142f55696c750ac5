// Deals a training graph out: forward and backward to every replica, the update to one.
#include "compile/data_parallel.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"

namespace trireme {
namespace {

constexpr int kLossGradientRole = op_role::kBackward | op_role::kLoss;

bool runs_once(const Node& node) {
  return (node.origin->role & (op_role::kOptimize | op_role::kLrSched)) != 0;
}

const OpTraits& traits_of(const Origin& origin) {
  static const OpTraits kNone;
  return origin.row ? origin.row->trait() : kNone;
}

bool linear(const Origin& origin) { return traits_of(origin).linear; }

// Of a gradient's loop or branch, the first op that is not linear. What computes forward values
// again stands there too.
std::shared_ptr<const Origin> nonlinear_inside(const Node& node) {
  for (const Region& region : node.regions) {
    for (const Node& inner : region.graph->nodes) {
      const Origin& origin = *inner.origin;
      const bool backward = (origin.role & op_role::kBackward) != 0 && origin.recompute.empty();
      if (backward && !linear(origin)) return inner.origin;
      if (auto found = nonlinear_inside(inner)) return found;
    }
  }
  return nullptr;
}

class Cutter {
 public:
  Cutter(Graph graph, LossGradient loss_gradient)
      : whole_(std::move(graph)), loss_gradient_(loss_gradient) {}

  ParallelGraphs run() {
    // Both halves keep the whole graph's value numbers: only nodes are dealt out.
    cut_.replica.values = whole_.values;
    cut_.update.values = whole_.values;
    once_.assign(whole_.values.size(), false);
    for (const Node& node : whole_.nodes) {
      if (!runs_once(node)) continue;
      any_once_ = true;
      for (int value : node.outs) {
        if (value >= 0) once_[value] = true;
      }
    }
    cut_.replica.feeds = whole_.feeds;
    cut_.replica.replicated = true;
    deal_nodes();
    deal_states();
    deal_fetches();
    return std::move(cut_);
  }

 private:
  void deal_nodes() {
    for (Node& node : whole_.nodes) {
      if (runs_once(node)) {
        for (int value : node.ins) {
          if (value >= 0 && !once_[value]) cross(value, node);
        }
        cut_.update.nodes.push_back(std::move(node));
        continue;
      }
      for (int value : node.ins) {
        if (value < 0 || !once_[value]) continue;
        throw Error(ErrorKind::unimplemented,
                    cat(node.origin->op_type, " in the forward part reads ",
                        whole_.values[value].info.name, ", which the update part computes once"))
            .at(node.origin->line)
            .fix("compute it by ops outside the optimizer and the learning-rate schedule");
      }
      if (node.origin->role == kLossGradientRole && traits_of(*node.origin).fills) {
        replace_loss_gradient(node);
        continue;
      }
      note_mean(node);
      follow_gradients(node);
      cut_.replica.nodes.push_back(std::move(node));
    }
    for (int feed : cut_.passed) cut_.update.feeds.push_back(whole_.feeds[feed]);
    renumber(cut_.replica);
    renumber(cut_.update);
  }

  static void renumber(Graph& graph) {
    for (Value& value : graph.values) value.node = -1;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (int value : graph.nodes[n].outs) {
        if (value >= 0) graph.values[value].node = static_cast<int>(n);
      }
    }
  }

  // The loss gradient is 1 on one device; here each replica is given its own.
  void replace_loss_gradient(const Node& node) {
    const int value = node.outs.front();
    cut_.loss_grad_name = whole_.values[value].info.name;
    const auto fed = std::find_if(whole_.feeds.begin(), whole_.feeds.end(), [&](const auto& feed) {
      return feed.name == cut_.loss_grad_name;
    });
    if (loss_gradient_ == LossGradient::fed) {
      if (fed == whole_.feeds.end()) {
        throw Error(
            cat("gradient_scale_strategy is Customized, but ", cut_.loss_grad_name, " is not fed"))
            .fix(cat("feed '", cut_.loss_grad_name, "': one value per device"));
      }
      // Readers of the replaced op read the feed.
      stands_for_[value] = fed->value;
      return;
    }
    of_gradient_.insert(value);
    cut_.loss_weight_feed = static_cast<int>(cut_.replica.feeds.size());
    cut_.replica.feeds.push_back({cut_.loss_grad_name, value});
  }

  void follow_gradients(const Node& node) {
    const bool reached = std::any_of(node.ins.begin(), node.ins.end(),
                                     [&](int value) { return of_gradient_.contains(value); });
    if (!reached) return;
    of_gradient_.insert(node.outs.begin(), node.outs.end());
    of_gradient_.erase(-1);
    if (cut_.nonlinear) return;
    cut_.nonlinear = linear(*node.origin) ? nonlinear_inside(node) : node.origin;
  }

  void note_mean(Node& node) {
    for (int& value : node.ins) {
      if (const auto it = stands_for_.find(value); it != stands_for_.end()) value = it->second;
    }
    const bool loss_op = node.origin->role == (op_role::kForward | op_role::kLoss);
    if (loss_op && traits_of(*node.origin).averages && cut_.averaged_value < 0) {
      cut_.averaged_value = node.ins.front();
    }
  }

  // A value that replicas compute and the update reads: a gradient, or a state (read from the
  // scope).
  void cross(int value, const Node& reader) {
    if (is_entry(value) || crossed_.contains(value)) return;
    for (size_t i = 0; i < whole_.feeds.size(); ++i) {
      if (whole_.feeds[i].value != value) continue;
      if (std::find(cut_.passed.begin(), cut_.passed.end(), i) == cut_.passed.end())
        cut_.passed.push_back(static_cast<int>(i));
      return;
    }
    const ValueInfo& info = whole_.values[value].info;
    const bool gradient = info.name.find(kGradSuffix) != std::string::npos;
    if (!gradient) {
      throw Error(ErrorKind::unimplemented,
                  cat(reader.origin->op_type, " of the update part reads ",
                      info.name.empty() ? "a value" : info.name,
                      ", which every replica computes for itself and which is no gradient"))
          .at(reader.origin->line)
          .fix("run this program without with_data_parallel");
    }
    crossed_.insert(value);
    cut_.replica.kept.push_back(value);
    cut_.update.feeds.push_back({info.name, value});
    ++cut_.gradients;
  }

  bool is_entry(int value) const {
    return std::any_of(whole_.states.begin(), whole_.states.end(),
                       [&](const auto& state) { return state.entry == value; });
  }

  void deal_states() {
    const auto reads = [](const Graph& graph, int value) {
      for (const Node& node : graph.nodes) {
        if (std::find(node.ins.begin(), node.ins.end(), value) != node.ins.end()) return true;
      }
      return false;
    };
    for (const auto& state : whole_.states) {
      const bool written = state.exit >= 0 && state.exit != state.entry;
      const bool written_once = written && once_[state.exit];
      const auto add = [&](Graph& graph, bool writes) {
        const bool read = state.entry >= 0 && (reads(graph, state.entry) || fetched(state.entry));
        if (!read && !writes) return;
        graph.states.push_back({state.name, state.entry, writes ? state.exit : state.entry});
      };
      add(cut_.replica, written && !written_once);
      add(cut_.update, written_once);
    }
  }

  bool fetched(int value) const {
    return std::any_of(whole_.fetches.begin(), whole_.fetches.end(),
                       [&](const auto& fetch) { return fetch.value == value; });
  }

  void deal_fetches() {
    for (const auto& fetch : whole_.fetches) {
      int value = fetch.value;
      if (const auto it = stands_for_.find(value); it != stands_for_.end()) value = it->second;
      const bool once = once_[value] || crossed_.contains(value);
      Graph& graph = once ? cut_.update : cut_.replica;
      cut_.fetches.push_back({fetch.name, once, static_cast<int>(graph.fetches.size())});
      graph.fetches.push_back({fetch.name, value});
    }
  }

  Graph whole_;
  LossGradient loss_gradient_;
  ParallelGraphs cut_;
  std::vector<bool> once_;
  bool any_once_ = false;
  std::set<int> crossed_;
  std::set<int> of_gradient_;  // values that depend on the loss gradient
  std::map<int, int> stands_for_;
};

}  // namespace

ParallelGraphs cut_for_data_parallel(Graph graph, LossGradient loss_gradient) {
  return Cutter(std::move(graph), loss_gradient).run();
}

}  // namespace trireme
