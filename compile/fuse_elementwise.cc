// Elementwise nodes that feed each other become one p.fused node, with a sum of what they compute.
//
// A unit is a node, or several that will be one. Two units may become one when no path leads from
// one to the other through a third: run at once, such a path would have to wait for itself. Nodes
// that run on the caller, have sub-blocks or must stay where they are (barriers) are never passed.
//
// Units stand in an order in which operands come first (compile/unit_order.h), so that a path is
// looked for between the two alone.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>

#include "compile/passes.h"
#include "compile/unit_order.h"
#include "compile/views.h"
#include "cpu/tiled_sum.h"
#include "ir/tile.h"

namespace trireme {
namespace {

// A chain this long hides the cost of loads and stores; longer ones only cost registers.
constexpr size_t kMostSteps = 64, kMostOperands = 24;

bool is_dense(const ValueInfo& info, DType dtype) {
  return info.type == VarType::lod_tensor && info.dtype == dtype;
}

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// Numbers that a step takes and makes.
bool is_real(const ValueInfo& info, bool halves) {
  return info.type == VarType::lod_tensor &&
         (info.dtype == DType::float32 || (halves && is_half(info.dtype)));
}

bool is_number(const ValueInfo& info) { return info.shape.numel() == Dim(1); }

bool same_known_shape(const ValueInfo& a, const ValueInfo& b) {
  return a.shape.known() && a.shape == b.shape;
}

// Nodes that rename dimensions, where they leave even those as they are.
bool is_plain_copy(const Graph& graph, const Node& node) {
  if (renamed(node) != std::pair(0, 0)) return false;
  const ValueInfo& in = graph.values[node.ins[0]].info;
  const ValueInfo& out = graph.values[node.outs[0]].info;
  return same_known_shape(in, out) || (is_number(in) && is_number(out));
}

// The step that a node becomes; nothing when it stays as it is.
std::optional<TileOp> step_of(const Graph& graph, const Node& node, bool halves) {
  if (!node.regions.empty() || !node.shared.empty() || node.outs.size() != 1) return std::nullopt;
  const ValueInfo& out = graph.values[node.outs[0]].info;
  const auto all_real = [&](size_t from) {
    return std::all_of(node.ins.begin() + static_cast<std::ptrdiff_t>(from), node.ins.end(),
                       [&](int in) { return in >= 0 && is_real(graph.values[in].info, halves); });
  };
  const bool casts = halves && node.schema->type() == "p.cast";
  if (casts || node.schema->type() == "p.full_like" || is_plain_copy(graph, node)) {
    return all_real(0) && is_real(out, halves) ? std::optional(TileOp::copy) : std::nullopt;
  }
  const std::optional<TileOp> op = node.schema->trait().tile;
  if (!op) return std::nullopt;
  if (makes_mask(*op) ? !is_dense(out, DType::boolean) : !is_real(out, halves)) return std::nullopt;
  if (takes_masks(*op)) {
    const bool masks = std::all_of(node.ins.begin(), node.ins.end(), [&](int in) {
      return in >= 0 && is_dense(graph.values[in].info, DType::boolean);
    });
    return masks ? op : std::nullopt;
  }
  if (*op == TileOp::select) {
    const bool fits = is_dense(graph.values[node.ins[0]].info, DType::boolean);
    return fits && all_real(1) ? op : std::nullopt;
  }
  return all_real(0) ? op : std::nullopt;
}

// The axes along which a node adds up its operand; nothing when it is no such node, or when they
// are not known yet.
std::optional<std::vector<int>> summed_axes(const Graph& graph, const Node& node) {
  const OpTraits& trait = node.schema->trait();
  if (!trait.sums || !node.shared.empty()) return std::nullopt;
  const ValueInfo& from = graph.values[node.ins[0]].info;
  const ValueInfo& to = graph.values[node.outs[0]].info;
  if (!is_dense(from, DType::float32) || !is_dense(to, DType::float32)) return std::nullopt;
  std::vector<int> axes;
  if (trait.like >= 0) {
    const int shift = from.shape.rank() - to.shape.rank();
    for (int d = 0; d < from.shape.rank(); ++d) {
      const Dim wanted = d < shift ? Dim(1) : to.shape[d - shift];
      if (!wanted.known()) return std::nullopt;
      if (wanted == from.shape[d]) continue;
      if (wanted != Dim(1)) return std::nullopt;
      axes.push_back(d);
    }
  } else {
    axes = attr_as<std::vector<int32_t>>(node.attrs->at("axes"), "axes");
    for (int& axis : axes) axis += axis < 0 ? from.shape.rank() : 0;
    if (axes.empty()) {
      axes.resize(static_cast<size_t>(from.shape.rank()));
      std::iota(axes.begin(), axes.end(), 0);
    }
  }
  if (axes.empty() || !TiledSum::fits(from.shape, axes)) return std::nullopt;
  return axes;
}

UnitOrder order_of(const Graph& graph) {
  std::vector<std::vector<int>> makers(graph.nodes.size()), readers(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const int value : graph.nodes[n].ins) {
      const int maker = value < 0 ? -1 : graph.values[value].node;
      if (maker < 0) continue;
      makers[n].push_back(maker);
      readers[maker].push_back(static_cast<int>(n));
    }
  }
  return {std::move(makers), std::move(readers)};
}

class Fuser {
 public:
  Fuser(Graph& graph, bool halves) : graph_(graph), halves_(halves), order_(order_of(graph)) {}

  bool run() {
    describe();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (steps_[n]) join_producers(static_cast<int>(n));
      if (sums_[n]) join_summed(static_cast<int>(n));
    }
    return rewrite();
  }

 private:
  bool is_constant(int node) const { return graph_.nodes[node].schema->type() == "p.constant"; }

  void describe() {
    int epoch = 0;
    users_.resize(graph_.values.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const int n = static_cast<int>(i);
      const bool barrier = is_barrier(node);
      epoch += barrier;
      epochs_.push_back(epoch);
      epoch += barrier;
      steps_.push_back(barrier ? std::nullopt : step_of(graph_, node, halves_));
      sums_.push_back(barrier ? std::nullopt : summed_axes(graph_, node));
      sum_of_.push_back(sums_[i] ? n : -1);
      for (int value : node.ins) {
        if (value >= 0) users_[value].push_back(n);
      }
    }
    outlives_ = graph_.outliving();
  }

  // The node that computes an operand, if it may be part of the same unit.
  int producer(int value) const { return value < 0 ? -1 : graph_.values[value].node; }

  void join_producers(int n) {
    const Node& node = graph_.nodes[n];
    for (int value : node.ins) {
      const int from = producer(value);
      if (from < 0 || !steps_[from] || !fits(n, value)) continue;
      join(order_.unit_of(from), order_.unit_of(n));
    }
  }

  // A sum joins those who compute what it adds up. A p.full_like has its shape from elsewhere.
  void join_summed(int n) {
    const int value = graph_.nodes[n].ins[0];
    const int from = producer(value);
    if (from < 0 || !steps_[from] || is_number(graph_.values[value].info)) return;
    const std::vector<int>& nodes = order_.nodes(order_.unit_of(from));
    if (std::any_of(nodes.begin(), nodes.end(), [&](int other) {
          return graph_.nodes[other].schema->type() == "p.full_like";
        })) {
      return;
    }
    join(order_.unit_of(from), n);
  }

  // A sum is there when all tiles are done: nobody in the unit may wait for it.
  bool waits_for_sum(int unit, int other) const {
    const int sum = sum_of_[other];
    if (sum < 0) return false;
    return std::any_of(order_.nodes(unit).begin(), order_.nodes(unit).end(), [&](int n) {
      const std::vector<int>& ins = graph_.nodes[n].ins;
      return std::find(ins.begin(), ins.end(), graph_.nodes[sum].outs[0]) != ins.end();
    });
  }

  // Whether computing `value` beside node n's own result costs nothing extra.
  bool fits(int n, int value) const {
    const ValueInfo& in = graph_.values[value].info;
    const ValueInfo& out = graph_.values[graph_.nodes[n].outs[0]].info;
    if (is_number(in) && !is_number(out)) {
      // One number for many readers would tie them all together.
      return std::all_of(users_[value].begin(), users_[value].end(), [&](int user) {
        return graph_.nodes[user].origin == graph_.nodes[n].origin;
      });
    }
    return in.shape.rank() == out.shape.rank() && in.shape.may_equal(out.shape);
  }

  template <class F>
  void each_outer_producer(int unit, F f) const {
    for (int n : order_.nodes(unit)) {
      for (int value : graph_.nodes[n].ins) {
        const int from = producer(value);
        if (from >= 0 && order_.unit_of(from) != order_.unit_of(n)) f(order_.unit_of(from));
      }
    }
  }

  void join(int a, int b) {
    if (a == b || epochs_[a] != epochs_[b]) return;
    if (order_.nodes(a).size() + order_.nodes(b).size() > kMostSteps) return;
    if (operands_together(a, b) > kMostOperands) return;
    if (sum_of_[a] >= 0 && sum_of_[b] >= 0) return;
    if (waits_for_sum(a, b) || waits_for_sum(b, a) || !order_.join(a, b)) return;
    sum_of_[a] = std::max(sum_of_[a], sum_of_[b]);
  }

  size_t operands_together(int a, int b) const {
    std::set<int> read;
    for (const int unit : {a, b}) {
      for (int n : order_.nodes(unit)) {
        for (int value : graph_.nodes[n].ins) {
          const int from = producer(value);
          if (from >= 0 && (order_.unit_of(from) == a || order_.unit_of(from) == b)) continue;
          if (from < 0 || !is_constant(from)) read.insert(value);
        }
      }
    }
    return read.size();
  }

  // Whether anybody outside the unit reads the value.
  bool is_result(int value, int unit) const {
    return outlives_[value] || std::any_of(users_[value].begin(), users_[value].end(),
                                           [&](int user) { return order_.unit_of(user) != unit; });
  }

  Node fused(int unit) const {
    TileProgram program;
    Node made;
    made.schema = &op_table().get("p.fused");
    // Registers are numbered when all operands and constants are known.
    std::map<int, int> operand, constant, step;  // by value
    for (int n : order_.nodes(unit)) {
      if (n == sum_of_[unit]) continue;  // its operand is a step's; of another it takes the shape
      for (int value : graph_.nodes[n].ins) {
        const int from = producer(value);
        if (from >= 0 && order_.unit_of(from) == unit) continue;
        if (from >= 0 && is_constant(from)) {
          if (constant.try_emplace(value, static_cast<int>(program.constants.size())).second) {
            program.constants.push_back(constant_of(graph_.nodes[from]));
          }
        } else if (operand.try_emplace(value, static_cast<int>(made.ins.size())).second) {
          made.ins.push_back(value);
        }
      }
      if (graph_.nodes[n].schema->type() == "p.full_like") {
        constant[-1 - n] = static_cast<int>(program.constants.size());
        program.constants.push_back(constant_of(graph_.nodes[n]));
      }
    }
    const int first_constant = static_cast<int>(made.ins.size());
    const int first_step = first_constant + static_cast<int>(program.constants.size());
    const auto reg = [&](int value) {
      if (const auto it = step.find(value); it != step.end()) return first_step + it->second;
      if (const auto it = constant.find(value); it != constant.end())
        return first_constant + it->second;
      return operand.at(value);
    };
    for (int n : order_.nodes(unit)) {
      if (n == sum_of_[unit]) continue;
      const Node& node = graph_.nodes[n];
      TileProgram::Step made_step{.op = *steps_[n], .rounds = rounding_of(node)};
      const int read = tile_operands(*steps_[n]);
      for (int i = 0; i < read; ++i) made_step.in[i] = reg(node.ins[static_cast<size_t>(i)]);
      if (node.schema->type() == "p.full_like") made_step.in[0] = reg(-1 - n);
      step[node.outs[0]] = static_cast<int>(program.steps.size());
      program.steps.push_back(made_step);
      if (is_result(node.outs[0], unit)) {
        program.results.push_back(reg(node.outs[0]));
        made.outs.push_back(node.outs[0]);
      }
    }
    find_in_place(made, unit, program);
    if (const int n = sum_of_[unit]; n >= 0) {
      const Node& node = graph_.nodes[n];
      program.sum = {reg(node.ins[0]), node.schema->trait().averages, *sums_[n]};
      program.results.push_back(-1);
      made.outs.push_back(node.outs[0]);
    }
    made.attrs = std::make_shared<const Attrs>();
    made.decided.program = std::make_shared<const TileProgram>(std::move(program));
    made.in_counts = {static_cast<int>(made.ins.size())};
    made.out_counts = {static_cast<int>(made.outs.size())};
    made.origin = joined_origin(unit);
    for (int n : order_.nodes(unit)) made.parts.push_back(graph_.nodes[n]);
    return made;
  }

  // A constant as its tensor holds it.
  float constant_of(const Node& node) const {
    const auto value =
        static_cast<float>(attr_as<double>(node.attrs->find("value")->second, "value"));
    switch (graph_.values[node.outs[0]].info.dtype) {
      case DType::float16:
        return static_cast<float>(float16(value));
      case DType::bfloat16:
        return static_cast<float>(bfloat16(value));
      default:
        return value;
    }
  }

  DType rounding_of(const Node& node) const {
    const DType dtype = graph_.values[node.outs[0]].info.dtype;
    return is_half(dtype) ? dtype : DType::float32;
  }

  // Results that may stand where an operand stood. Versions of one variable share its memory if
  // every result has their shape: then each tile is read before it is written. Other operands are
  // overwritten if nobody else reads them and the shapes, once known, allow it.
  void find_in_place(Node& node, int unit, TileProgram& program) const {
    std::set<int> taken;  // operands
    const auto info = [&](int value) -> const ValueInfo& { return graph_.values[value].info; };
    const bool one_shape = std::all_of(node.outs.begin(), node.outs.end(), [&](int out) {
      return same_known_shape(info(out), info(node.outs[0]));
    });
    for (size_t o = 0; o < node.outs.size(); ++o) {
      const ValueInfo& out = info(node.outs[o]);
      if (!is_real(out, halves_)) continue;
      for (size_t i = 0; i < node.ins.size(); ++i) {
        const ValueInfo& in = info(node.ins[i]);
        if (in.dtype != out.dtype || taken.contains(node.ins[i])) continue;
        const bool versions =
            !in.name.empty() && in.name == out.name && one_shape && same_known_shape(in, out);
        const bool ended = ends_with(node.ins[i], unit) && !outlives_[node.outs[o]] &&
                           in.shape.may_equal(out.shape);
        if (!versions && !ended) continue;
        (versions ? node.may_share : node.may_overwrite)
            .emplace_back(static_cast<int>(i), static_cast<int>(o));
        taken.insert(node.ins[i]);
        if (!versions) break;
      }
    }
    program.in_place = node.may_share;
    program.in_place.insert(program.in_place.end(), node.may_overwrite.begin(),
                            node.may_overwrite.end());
  }

  // Nobody but the unit's nodes reads the value, which a node of this graph makes.
  bool ends_with(int value, int unit) const {
    return graph_.values[value].node >= 0 && !outlives_[value] &&
           std::all_of(users_[value].begin(), users_[value].end(),
                       [&](int n) { return order_.unit_of(n) == unit; });
  }

  // Named after the ops that it stands for.
  std::shared_ptr<const Origin> joined_origin(int unit) const {
    auto made = std::make_shared<Origin>(*graph_.nodes[order_.nodes(unit).back()].origin);
    made->op_type.clear();
    const Origin* before = nullptr;
    for (int n : order_.nodes(unit)) {
      const Origin* origin = graph_.nodes[n].origin.get();
      if (origin == before) continue;
      before = origin;
      made->op_type += (made->op_type.empty() ? "" : "+") + origin->op_type;
    }
    return made;
  }

  // One node alone is fused only to write its result over its operand.
  bool worth_it(int unit) const {
    if (order_.nodes(unit).size() > 1) return true;
    if (sum_of_[unit] >= 0) return false;
    const Node& node = graph_.nodes[order_.nodes(unit)[0]];
    const ValueInfo& out = graph_.values[node.outs[0]].info;
    return std::any_of(node.ins.begin(), node.ins.end(), [&](int in) {
      if (in < 0) return false;
      const ValueInfo& info = graph_.values[in].info;
      return !info.name.empty() && info.name == out.name && same_known_shape(info, out) &&
             info.dtype == DType::float32 && out.dtype == DType::float32;
    });
  }

  bool rewrite() {
    std::vector<Node> nodes;
    bool changed = false;
    std::vector<bool> read(graph_.values.size(), false);
    for (const int unit : in_order()) {
      const int first = order_.nodes(unit)[0];
      if (steps_[first] && worth_it(unit)) {
        nodes.push_back(fused(unit));
        changed = true;
      } else {
        nodes.push_back(graph_.nodes[first]);
      }
      for (int value : nodes.back().ins) {
        if (value >= 0) read[value] = true;
      }
    }
    if (!changed) return false;
    // Constants that were taken into programs.
    std::erase_if(nodes, [&](const Node& node) {
      return node.schema->type() == "p.constant" && !read[node.outs[0]] && !outlives_[node.outs[0]];
    });
    graph_.nodes = std::move(nodes);
    for (Value& value : graph_.values) value.node = -1;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int value : graph_.nodes[n].outs) {
        if (value >= 0) graph_.values[value].node = static_cast<int>(n);
      }
    }
    return true;
  }

  // Units in an order in which operands come first, otherwise as their last nodes stood.
  std::vector<int> in_order() const {
    std::vector<int> waits(epochs_.size(), 0);
    std::vector<std::vector<int>> readers(epochs_.size());
    using Key = std::pair<std::pair<int, int>, int>;  // epoch, last node; unit
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    const auto key = [&](int unit) {
      return Key{{epochs_[unit], order_.nodes(unit).back()}, unit};
    };
    for (size_t u = 0; u < epochs_.size(); ++u) {
      if (order_.nodes(u).empty()) continue;
      each_outer_producer(static_cast<int>(u), [&](int from) {
        readers[from].push_back(static_cast<int>(u));
        ++waits[u];
      });
      if (waits[u] == 0) ready.push(key(static_cast<int>(u)));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int unit = ready.top().second;
      ready.pop();
      order.push_back(unit);
      for (const int reader : readers[unit]) {
        if (--waits[reader] == 0) ready.push(key(reader));
      }
    }
    return order;
  }

  Graph& graph_;
  bool halves_;                               // steps of float16 and bfloat16 are taken too
  std::vector<std::optional<TileOp>> steps_;  // by node
  std::vector<std::optional<std::vector<int>>> sums_;  // by node: the axes it adds up
  UnitOrder order_;
  std::vector<int> epochs_;              // by unit: barriers passed
  std::vector<int> sum_of_;              // by unit: its node that adds up, or -1
  std::vector<std::vector<int>> users_;  // by value
  std::vector<bool> outlives_;           // by value
};

}  // namespace

bool fuse_elementwise(Graph& graph, const Target& target) {
  return Fuser(graph, target.half_tiles).run();
}

}  // namespace trireme
