// Writes the forward op again and walks what it became backwards by its rules.
#include "compile/vjp.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "core/text.h"

namespace trireme {
namespace {

// The forward op as its body must see it: the gradient op's own operands in the forward's slots.
struct ForwardView {
  OpView view;
  std::vector<int> ins;
  std::deque<ValueInfo> results = {};
  std::vector<ValueInfo> facts = {};  // of ins
};

ForwardView forward_view(Graph& graph, const OpSchema& forward, const OpView& grad,
                         const std::vector<int>& grad_ins) {
  ForwardView made{OpView(forward, grad.attrs()), {}};
  std::set<int> seen;
  for (const SlotSpec& slot : forward.inputs()) {
    std::vector<const ValueInfo*> facts;
    for (size_t i = 0; i < grad.count(slot.name); ++i) {
      int id = grad_ins[grad.position(slot.name, i)];
      // One variable in two slots has two gradients: give each slot a value of its own.
      if (!seen.insert(id).second) id = graph.emit("p.identity", {id}, {}).front();
      seen.insert(id);
      made.ins.push_back(id);
    }
    if (facts.empty() && grad.count(slot.name) == 0 && !slot.duplicable) made.ins.push_back(-1);
  }
  return made;
}

// Gives the forward view its operands and those results whose gradients arrive.
void complete_view(const Graph& graph, const OpSchema& forward, const OpView& view,
                   ForwardView& again) {
  // Facts are copied: the graph's table moves while the body emits.
  again.facts.reserve(again.ins.size());
  for (int id : again.ins) again.facts.push_back(id < 0 ? ValueInfo{} : graph.values[id].info);
  size_t at = 0;
  for (const SlotSpec& slot : forward.inputs()) {
    std::vector<const ValueInfo*> operands;
    const size_t count = view.count(slot.name);
    for (size_t i = 0; i < count; ++i) operands.push_back(&again.facts[at + i]);
    at += slot.duplicable ? count : 1;
    again.view.add_in(slot.name, operands);
  }
  for (const SlotSpec& slot : forward.outputs()) {
    std::vector<ValueInfo*> operands;
    const std::string gradient = grad_name(slot.name);
    for (size_t i = 0; view.schema().find_input(gradient) && i < view.count(gradient); ++i) {
      operands.push_back(&again.results.emplace_back());
    }
    again.view.add_out(slot.name, operands);
  }
  again.view.seal();
}

// Writes the forward op again; its results by position, -1 where there is none. A gradient op that
// is differentiated in its turn may be a body, be made from one, or have kernels and say what they
// compute, or how to differentiate them.
std::vector<int> emit_forward(Graph& graph, const OpSchema& forward, ForwardView& again) {
  const BodyRule& rule = forward.body_rule() ? forward.body_rule() : forward.definition();
  if (rule) {
    Body body(graph, again.view, again.ins);
    rule(body);
    std::vector<int> results;
    for (const Expr& result : body.results()) results.push_back(result ? result.id() : -1);
    return results;
  }
  if (forward.vjp_rule()) {
    forward.shape_rule()(again.view);
    const auto attrs = std::make_shared<const Attrs>(again.view.attrs());
    return graph.add_node(forward, attrs, again.view, again.ins).outs;
  }
  return lower_by_vjp(graph, again.view, again.ins);
}

// The nodes that the forward op has become.
struct NodeRange {
  size_t first, end;
};

// Only values that depend on an input whose gradient is wanted need one.
std::set<int> values_to_differentiate(const Graph& graph, const OpSchema& forward,
                                      const OpView& view, const ForwardView& again,
                                      NodeRange nodes) {
  std::set<int> needed;
  for (const SlotSpec& slot : forward.inputs()) {
    if (!view.schema().find_output(slot.name + "@GRAD")) continue;
    for (size_t i = 0; i < view.count(slot.name); ++i) {
      if (view.out_position(slot.name + "@GRAD", i) >= 0 &&
          i < view.out_count(slot.name + "@GRAD")) {
        needed.insert(again.ins[again.view.position(slot.name, i)]);
      }
    }
  }
  for (size_t n = nodes.first; n < nodes.end; ++n) {
    const Node& node = graph.nodes[n];
    for (int in : node.ins) {
      if (needed.contains(in)) needed.insert(node.outs.begin(), node.outs.end());
    }
  }
  return needed;
}

// Gradients by value; what arrives twice is added up.
class GradSums {
 public:
  void add(int value, Expr grad) {
    const auto [it, fresh] = grads_.try_emplace(value, grad);
    if (!fresh) it->second = it->second + grad;
  }
  Expr find(int value) const {
    const auto it = grads_.find(value);
    return it == grads_.end() ? Expr() : it->second;
  }

 private:
  std::map<int, Expr> grads_;
};

// A gradient ends where whole numbers and conditions begin; elsewhere a rule must say so.
void refuse_to_end_here(const Graph& graph, const Node& node, const std::set<int>& needed) {
  const auto is_real = [&](int value) {
    return value >= 0 && is_floating(graph.values[value].info.dtype);
  };
  const bool from = std::ranges::any_of(
      node.ins, [&](int value) { return is_real(value) && needed.contains(value); });
  if (!from || std::ranges::none_of(node.outs, is_real)) return;
  throw Error(ErrorKind::unimplemented,
              cat("a gradient has to go through ", node.schema->type(), ", which has none"))
      .fix("set stop_gradient on what it is computed from, or use another op");
}

// Sends the gradients that have arrived at a node's results on to its operands.
void differentiate_node(Graph& graph, size_t index, const std::set<int>& needed, GradSums& grads) {
  const Node node = graph.nodes[index];  // a copy: rules append nodes
  std::vector<Expr> out_grads;
  bool any = false, wanted = false;
  for (int out : node.outs) {
    out_grads.push_back(grads.find(out));
    any |= static_cast<bool>(out_grads.back());
    wanted |= needed.contains(out);
  }
  if (!any || !wanted) return;
  if (!node.schema->vjp_rule()) return refuse_to_end_here(graph, node, needed);
  std::vector<Expr> operands, results;
  for (int in : node.ins) operands.push_back(in < 0 ? Expr() : Expr(&graph, in));
  for (int out : node.outs) results.push_back(Expr(&graph, out));
  // Facts are copied, for the graph's table moves; of this node's values alone, or a program's
  // gradients would copy all values for every node.
  Node apart = node;
  std::vector<ValueInfo> copies;
  copies.reserve(node.ins.size() + node.outs.size());
  std::vector<ValueInfo*> pointers;
  for (std::vector<int>* values : {&apart.ins, &apart.outs}) {
    for (int& value : *values) {
      if (value < 0) continue;
      copies.push_back(graph.values[value].info);
      value = static_cast<int>(pointers.size());
      pointers.push_back(&copies.back());
    }
  }
  const OpView node_view = view_of(apart, pointers);
  Vjp vjp(node_view, operands, results, out_grads);
  node.schema->vjp_rule()(vjp);
  for (size_t i = 0; i < node.ins.size(); ++i) {
    if (vjp.grads()[i] && needed.contains(node.ins[i])) grads.add(node.ins[i], vjp.grads()[i]);
  }
}

}  // namespace

std::vector<int> lower_by_vjp(Graph& graph, const OpView& view, const std::vector<int>& ins) {
  const OpSchema& forward = *view.schema().forward();
  promise(forward.body_rule() || forward.is_gradient(), "a gradient without rules has a source");

  ForwardView again = forward_view(graph, forward, view, ins);
  complete_view(graph, forward, view, again);
  const size_t first_node = graph.nodes.size();
  const std::vector<int> results = emit_forward(graph, forward, again);
  const NodeRange nodes{first_node, graph.nodes.size()};
  const std::set<int> needed = values_to_differentiate(graph, forward, view, again, nodes);

  GradSums grads;
  for (const SlotSpec& slot : forward.outputs()) {
    for (size_t i = 0; i < again.view.out_count(slot.name); ++i) {
      const int result = results[static_cast<size_t>(again.view.out_position(slot.name, i))];
      if (result < 0) {
        throw InternalError(cat("the body of ", forward.type(), " leaves ", slot.name, " unset"));
      }
      // A gradient may arrive in another shape of the same size (a [1] loss gradient for rank 0).
      grads.add(result, Expr(&graph, ins[view.position(grad_name(slot.name), i)]));
    }
  }
  for (size_t n = nodes.end; n-- > nodes.first;) differentiate_node(graph, n, needed, grads);

  std::vector<int> outs(view.out_size(), -1);
  for (const SlotSpec& slot : forward.inputs()) {
    const std::string grad_slot = grad_name(slot.name);
    if (!view.schema().find_output(grad_slot)) continue;
    for (size_t i = 0; i < view.out_count(grad_slot) && i < view.count(slot.name); ++i) {
      const int position = view.out_position(grad_slot, i);
      if (position < 0 || !view.out_at(position)) continue;
      const int input = again.ins[again.view.position(slot.name, i)];
      const Expr grad = grads.find(input);
      outs[position] = grad ? grad.id() : full_like(Expr(&graph, input), 0.0).id();
    }
  }
  return outs;
}

}  // namespace trireme
