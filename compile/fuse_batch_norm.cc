// batch_norm, what is added to its result, and relu become one node; so do the gradients.
//
// Forwards: relu(batch_norm(x)) and relu(batch_norm(x) + z), where nobody else reads what is
// between. Backwards: relu lets through what arrives where its result is above zero, and
// batch_norm_grad takes that: it masks what it reads by itself. The masked gradient is written only
// where others read it, as the operand z's branch does. A sum of two that arrives is taken along.
// Every step rounds as before: no bit changes.
//
// Works on either layout of images: what is in blocks has been decided before.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "compile/equal_shapes.h"
#include "compile/passes.h"

namespace trireme {
namespace {

bool has_type(const Node& node, std::string_view type) { return node.schema->type() == type; }

// Whether the operand is looked at for its shape alone.
bool reads_shape_only(const Node& node, size_t operand) {
  return node.schema->trait().like == static_cast<int>(operand);
}

// Of rows without lists: positions are those of the slots.
int slot_value(const std::vector<SlotSpec>& slots, const std::vector<int>& values,
               std::string_view name) {
  for (size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].name == name) return values[s];
  }
  return -1;
}
int slot_operand(const Node& node, std::string_view slot) {
  return slot_value(node.schema->inputs(), node.ins, slot);
}
int slot_result(const Node& node, std::string_view slot) {
  return slot_value(node.schema->outputs(), node.outs, slot);
}

// The row's own operands and nothing beside them.
bool has_own_slots_only(const Node& node) {
  return node.regions.empty() && node.shared.empty() && node.may_share.empty() &&
         node.ins.size() == node.schema->inputs().size() &&
         node.outs.size() == node.schema->outputs().size();
}

class NormFuser {
 public:
  NormFuser(Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  bool run() {
    const bool forwards = sweep(&NormFuser::fuse_forwards);
    const bool backwards = sweep(&NormFuser::fuse_backwards);
    if (forwards || backwards) {
      prune_unobservable(graph_, target_);  // zeros that nobody compares with
    }
    return forwards || backwards;
  }

 private:
  using Rewrite = bool (NormFuser::*)(int node);

  bool sweep(Rewrite rewrite) {
    describe();
    bool changed = false;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (keep_[n]) changed |= (this->*rewrite)(static_cast<int>(n));
    }
    if (changed) graph_.keep_nodes(keep_);
    return changed;
  }

  void describe() {
    shapes_.emplace(graph_);
    keep_.assign(graph_.nodes.size(), true);
    users_.assign(graph_.values.size(), {});
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (int value : node.ins) {
        if (value >= 0) users_[value].push_back(static_cast<int>(n));
      }
    }
    outlives_ = graph_.outliving();
  }

  // The node that writes the value, if it is of that type.
  const Node* writer(int value, std::string_view type) const {
    const int node = value < 0 ? -1 : graph_.values[value].node;
    return node >= 0 && keep_[node] && has_type(graph_.nodes[node], type) ? &graph_.nodes[node]
                                                                          : nullptr;
  }
  int index_of(const Node& node) const { return static_cast<int>(&node - graph_.nodes.data()); }

  bool is_float(int value) const {
    const ValueInfo& info = graph_.info(value);
    const bool half = info.dtype == DType::float16 || info.dtype == DType::bfloat16;
    return info.type == VarType::lod_tensor &&
           (info.dtype == DType::float32 || (half && target_.half_tiles));
  }

  bool is_zero(int value) const {
    const Node* constant = writer(value, "p.constant");
    if (!constant) return false;
    const double number = attr_as<double>(constant->attrs->at("value"), "value");
    return number == 0 && !std::signbit(number);
  }

  // Whether the node reads the value once, and nobody else does.
  bool only_for(int value, int node) const {
    return !outlives_[value] && users_[value].size() == 1 && users_[value][0] == node;
  }

  // The same, but for others that look at its shape.
  bool numbers_only_for(int value, int node) const {
    if (outlives_[value]) return false;
    return std::all_of(users_[value].begin(), users_[value].end(), [&](int user) {
      const std::vector<int>& ins = graph_.nodes[user].ins;
      const auto at = std::find(ins.begin(), ins.end(), value);
      if (std::count(ins.begin(), ins.end(), value) != 1) return false;
      return user == node ||
             reads_shape_only(graph_.nodes[user], static_cast<size_t>(at - ins.begin()));
    });
  }

  // Named after the ops that the node stands for.
  static std::shared_ptr<const Origin> joined(const std::vector<const Node*>& nodes,
                                              const Node& main) {
    auto made = std::make_shared<Origin>(*main.origin);
    made->op_type.clear();
    for (const Node* node : nodes) {
      if (node) made->op_type += (made->op_type.empty() ? "" : "+") + node->origin->op_type;
    }
    return made;
  }

  // ---- forwards

  bool fuse_forwards(int n) {
    const Node& relu = graph_.nodes[n];
    if (!has_type(relu, "p.max") || !is_zero(relu.ins[1])) return false;
    if (const Node* norm = fitting_norm(relu.ins[0], n)) return join_forwards(*norm, nullptr, n);
    const Node* add = writer(relu.ins[0], "p.add");
    if (!add || !numbers_only_for(relu.ins[0], n)) return false;
    // Of two the later one, if it can be had: what the other gives is there by then.
    const Node* norms[] = {fitting_norm(add->ins[0], index_of(*add)),
                           fitting_norm(add->ins[1], index_of(*add))};
    std::sort(std::begin(norms), std::end(norms), std::greater<>());
    return std::any_of(std::begin(norms), std::end(norms),
                       [&](const Node* norm) { return norm && join_forwards(*norm, add, n); });
  }

  const Node* fitting_norm(int value, int reader) const {
    const Node* norm = writer(value, "batch_norm");
    const bool fits = norm && has_own_slots_only(*norm) && norm->outs[0] == value &&
                      is_float(value) && is_float(norm->ins[0]) && numbers_only_for(value, reader);
    return fits ? norm : nullptr;
  }

  bool join_forwards(const Node& norm, const Node* add, int n) {
    const int at = index_of(norm), y = norm.outs[0], x = norm.ins[0];
    const int z = !add ? -1 : add->ins[0] == y ? add->ins[1] : add->ins[0];
    if (z >= 0 && (!is_float(z) || !shapes_->same(x, z))) return false;
    // Where batch_norm stands, unless z comes later.
    const int where = z >= 0 && graph_.values[z].node > at ? n : at;
    if (where != at && !can_wait(at, where)) return false;
    Node made = norm;
    made.schema = &op_table().get("p.batch_norm_relu");
    made.ins.push_back(z);
    made.in_counts.push_back(z >= 0 ? 1 : 0);
    made.outs[0] = graph_.nodes[n].outs[0];
    made.origin = joined({&norm, add, &graph_.nodes[n]}, norm);
    // What looked at a shape alone finds it in x.
    std::vector<int> between{y};
    if (add) between.push_back(add->outs[0]);
    for (int value : between) {
      for (int user : users_[value]) {
        Node& reader = graph_.nodes[user];
        for (size_t i = 0; i < reader.ins.size(); ++i) {
          if (reader.ins[i] != value || !reads_shape_only(reader, i)) continue;
          reader.ins[i] = x;
          users_[x].push_back(user);
        }
      }
    }
    keep_[at] = keep_[n] = false;
    if (add) keep_[index_of(*add)] = false;
    put(where, std::move(made));
    return true;
  }

  // Whether a node may run as late as node `until`: nobody reads its results before, and nothing
  // between changes what it reads.
  bool can_wait(int at, int until) const {
    for (int value : graph_.nodes[at].outs) {
      if (value < 0) continue;
      for (int user : users_[value]) {
        if (user < until && keep_[user] && value != graph_.nodes[at].outs[0]) return false;
      }
    }
    return std::all_of(
        graph_.nodes.begin() + at + 1, graph_.nodes.begin() + until,
        [](const Node& node) { return node.shared.empty() && node.regions.empty(); });
  }

  void put(int where, Node made) {
    for (int value : made.outs) {
      if (value >= 0) graph_.values[value].node = where;
    }
    graph_.nodes[where] = std::move(made);
    keep_[where] = true;
  }

  // ---- backwards

  struct Gradient {
    int node;  // batch_norm_grad
    int like;  // p.sum_to_like between the two that changes nothing; or -1
  };

  bool fuse_backwards(int n) {
    const Node& masked = graph_.nodes[n];
    if (!has_type(masked, "p.select") || !is_zero(masked.ins[2])) return false;
    const Node* above = writer(masked.ins[0], "p.gt");
    if (!above || !is_zero(above->ins[1]) || !only_for(above->outs[0], n)) return false;
    const int out = above->ins[0], arriving = masked.ins[1], behind = masked.outs[0];
    if (!is_float(arriving) || !is_float(out) || !shapes_->same(out, arriving)) return false;
    const std::optional<Gradient> gradient = gradient_behind(n);
    if (!gradient) return false;
    join_backwards(n, *gradient, out, arriving, behind);
    return true;
  }

  // The first batch_norm_grad that takes what node n masks and needs nothing that comes after n.
  std::optional<Gradient> gradient_behind(int n) const {
    const int behind = graph_.nodes[n].outs[0];
    const auto fitting = [&](int user, int value) {
      const Node& node = graph_.nodes[user];
      if (!has_type(node, "batch_norm_grad") || !has_own_slots_only(node)) return false;
      if (slot_operand(node, "Y@GRAD") != value || !is_float(node.ins[0])) return false;
      return shapes_->same(node.ins[0], behind) &&
             std::all_of(node.ins.begin(), node.ins.end(), [&](int in) {
               return in == value || in < 0 || graph_.values[in].node < n;
             });
    };
    for (int user : users_[behind]) {
      if (fitting(user, behind)) return Gradient{user, -1};
      const Node& like = graph_.nodes[user];
      if (!has_type(like, "p.sum_to_like") || like.ins[0] != behind ||
          !shapes_->same(behind, like.ins[1])) {
        continue;
      }
      const int value = like.outs[0];
      if (outlives_[value] || users_[value].size() != 1) continue;
      if (fitting(users_[value][0], value)) return Gradient{users_[value][0], user};
    }
    return std::nullopt;
  }

  // Whether relu's argument can be made again of what the gradient reads: nothing was added to what
  // was normalised.
  bool made_again(int out, const Node& gradient) const {
    const Node* norm = writer(out, "p.batch_norm_relu");
    if (!norm || norm->outs[0] != out || slot_operand(*norm, "Z") >= 0) return false;
    for (const char* slot : {"X", "Scale", "Bias"}) {
      if (slot_operand(*norm, slot) != slot_operand(gradient, slot)) return false;
    }
    for (const char* slot : {"SavedMean", "SavedVariance"}) {
      if (slot_result(*norm, slot) != slot_operand(gradient, slot)) return false;
    }
    return true;
  }

  void join_backwards(int n, const Gradient& gradient, int out, int arriving, int behind) {
    const Node& old = graph_.nodes[gradient.node];
    const bool for_others = outlives_[behind] || users_[behind].size() > 1;
    const Node* sum = writer(arriving, "p.add");
    if (sum && !(only_for(arriving, n) && is_float(sum->ins[0]) && is_float(sum->ins[1]) &&
                 shapes_->same(sum->ins[0], arriving) && shapes_->same(sum->ins[1], arriving))) {
      sum = nullptr;
    }
    Node made;
    made.schema = &op_table().get("p.batch_norm_relu_grad");
    made.attrs = old.attrs;
    made.decided = old.decided;
    for (const char* slot : {"X", "Scale", "Bias", "SavedMean", "SavedVariance"}) {
      made.ins.push_back(slot_operand(old, slot));
    }
    made.in_counts.assign(made.ins.size(), 1);
    const bool again = made_again(out, old);
    made.ins.push_back(again ? -1 : out);
    made.in_counts.push_back(again ? 0 : 1);
    if (sum) {
      made.ins.insert(made.ins.end(), sum->ins.begin(), sum->ins.end());
    } else {
      made.ins.push_back(arriving);
    }
    made.in_counts.push_back(sum ? 2 : 1);
    for (const char* slot : {"X@GRAD", "Scale@GRAD", "Bias@GRAD"}) {
      made.outs.push_back(slot_result(old, slot));
    }
    made.outs.push_back(for_others ? behind : -1);
    for (int value : made.outs) made.out_counts.push_back(value >= 0 ? 1 : 0);
    made.origin = joined({sum, &graph_.nodes[n], &old}, old);

    keep_[graph_.values[graph_.nodes[n].ins[0]].node] = false;  // above zero or not
    if (sum) keep_[index_of(*sum)] = false;
    if (gradient.like >= 0) keep_[gradient.like] = false;
    keep_[gradient.node] = false;
    put(n, std::move(made));
  }

  Graph& graph_;
  const Target& target_;
  std::optional<EqualShapes> shapes_;
  std::vector<bool> keep_;  // by node
  // By value, as the sweep found them: who reads a value through a node that was put since counts
  // as another.
  std::vector<std::vector<int>> users_;
  std::vector<bool> outlives_;  // by value
};

}  // namespace

bool fuse_batch_norm(Graph& graph, const Target& target) { return NormFuser(graph, target).run(); }

}  // namespace trireme
