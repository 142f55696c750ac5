// Building, viewing and printing of graphs.
#include "compile/graph.h"

#include <deque>
#include <string>
#include <utility>

#include "compile/value_operands.h"
#include "core/text.h"

namespace trireme {

int Graph::add_value(ValueInfo info, int node) {
  values.push_back({std::move(info), node});
  return static_cast<int>(values.size()) - 1;
}

namespace {

// How many positions a slot takes: one for a plain slot even when absent, else one per operand.
int positions(const SlotSpec& slot, int count) { return slot.duplicable ? count : 1; }

}  // namespace

Node& Graph::add_node(const OpSchema& schema, std::shared_ptr<const Attrs> attrs,
                      const OpView& view, const std::vector<int>& ins) {
  Node node;
  node.schema = &schema;
  node.attrs = std::move(attrs);
  node.ins = ins;
  node.origin = origin;
  for (const SlotSpec& slot : schema.inputs()) {
    node.in_counts.push_back(static_cast<int>(view.count(slot.name)));
  }
  for (const SlotSpec& slot : schema.outputs()) {
    node.out_counts.push_back(static_cast<int>(view.out_count(slot.name)));
  }
  const int index = static_cast<int>(nodes.size());
  for (size_t i = 0; i < view.out_size(); ++i) {
    node.outs.push_back(view.out_at(i) ? add_value(*view.out_at(i), index) : -1);
  }
  nodes.push_back(std::move(node));
  return nodes.back();
}

namespace {

// The row's attributes with their types, and defaults where none is given; others stay.
std::shared_ptr<const Attrs> filled(const OpSchema& schema, Attrs attrs) {
  for (const AttrSpec& attr : schema.attributes()) {
    const auto given = attrs.find(attr.name);
    if (given == attrs.end()) {
      if (attr.fallback) attrs.emplace(attr.name, *attr.fallback);
    } else {
      given->second = convert(given->second, attr.type, attr.name);
    }
  }
  return std::make_shared<const Attrs>(std::move(attrs));
}

}  // namespace

std::vector<int> Graph::emit(std::string_view primitive, const std::vector<int>& inputs,
                             Attrs attrs) {
  const OpSchema& schema = op_table().get(primitive);
  const auto shared_attrs = filled(schema, std::move(attrs));

  OpView view(schema, *shared_attrs);
  std::vector<ValueInfo> facts;  // copies: add_value below may move the table
  facts.reserve(inputs.size());
  for (int input : inputs) facts.push_back(values[input].info);
  size_t next = 0;
  for (const SlotSpec& slot : schema.inputs()) {
    std::vector<const ValueInfo*> operands;
    // A duplicable slot of a primitive takes all that is left.
    const size_t take =
        slot.duplicable ? inputs.size() - next : std::min<size_t>(1, inputs.size() - next);
    for (size_t i = 0; i < take; ++i) operands.push_back(&facts[next++]);
    view.add_in(slot.name, operands);
  }
  promise(next == inputs.size(), "a primitive takes all operands it is given");
  std::vector<ValueInfo> results(schema.outputs().size());
  for (size_t i = 0; i < results.size(); ++i) view.add_out(schema.outputs()[i].name, {&results[i]});
  view.seal();
  schema.shape_rule()(view);

  return add_node(schema, shared_attrs, view, inputs).outs;
}

Emitter::Operands Graph::emit_op(std::string_view type, const Operands& operands, Attrs attrs,
                                 const Wanted& wanted) {
  const OpSchema& schema = op_table().get(type);
  promise(!schema.kernels().empty() && !schema.trait().host, "an op in a body has kernels");
  const auto shared_attrs = filled(schema, std::move(attrs));

  OpView view(schema, *shared_attrs);
  std::vector<int> ids;
  std::deque<ValueInfo> facts;  // copies: add_node below may move the table
  for (const SlotSpec& slot : schema.inputs()) {
    std::vector<const ValueInfo*> of_slot;
    if (const auto given = operands.find(slot.name); given != operands.end()) {
      for (const int id : given->second) {
        ids.push_back(id);
        of_slot.push_back(&facts.emplace_back(values[id].info));
      }
    }
    if (of_slot.empty() && !slot.duplicable) ids.push_back(-1);
    view.add_in(slot.name, of_slot);
  }
  std::deque<ValueInfo> results;
  for (const SlotSpec& slot : schema.outputs()) {
    const auto found = wanted.find(slot.name);
    std::vector<ValueInfo*> of_slot;
    for (size_t i = 0; found != wanted.end() && i < found->second; ++i) {
      of_slot.push_back(&results.emplace_back());
    }
    view.add_out(slot.name, of_slot);
  }
  view.seal();
  schema.shape_rule()(view);

  const std::vector<int> outs = add_node(schema, shared_attrs, view, ids).outs;
  Operands made;
  for (const auto& [slot, count] : wanted) {
    for (size_t i = 0; i < count; ++i) {
      made[slot].push_back(outs[static_cast<size_t>(view.out_position(slot, i))]);
    }
  }
  return made;
}

std::vector<bool> Graph::outliving() const {
  std::vector<bool> outlives(values.size(), false);
  for (const Named& fetch : fetches) outlives[fetch.value] = true;
  for (const State& state : states) {
    if (state.exit >= 0) outlives[state.exit] = true;
  }
  for (int value : kept) outlives[value] = true;
  for (int value : saved) outlives[value] = true;
  return outlives;
}

bool Graph::keep_nodes(const std::vector<bool>& keep) {
  size_t kept_nodes = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!keep[n]) continue;
    for (int value : nodes[n].outs) {
      if (value >= 0) values[value].node = static_cast<int>(kept_nodes);
    }
    if (kept_nodes != n) nodes[kept_nodes] = std::move(nodes[n]);
    ++kept_nodes;
  }
  const bool dropped = kept_nodes < nodes.size();
  nodes.resize(kept_nodes);
  return dropped;
}

namespace {

int position_of(const std::vector<SlotSpec>& slots, const std::vector<int>& counts,
                const std::string& name) {
  int at = 0;
  for (size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].name == name) return counts[s] == 1 ? at : -1;
    at += positions(slots[s], counts[s]);
  }
  return -1;
}

}  // namespace

int operand_position(const Node& node, const std::string& slot) {
  return position_of(node.schema->inputs(), node.in_counts, slot);
}

int result_position(const Node& node, const std::string& slot) {
  return position_of(node.schema->outputs(), node.out_counts, slot);
}

std::vector<std::pair<int, int>> in_place_pairs(const Node& node) {
  std::vector<std::pair<int, int>> pairs;
  for (const auto& [in_slot, out_slot] : node.schema->inplace_pairs()) {
    const int in = operand_position(node, in_slot);
    const int out = result_position(node, out_slot);
    if (in >= 0 && out >= 0 && node.ins[in] >= 0 && node.outs[out] >= 0)
      pairs.emplace_back(in, out);
  }
  pairs.insert(pairs.end(), node.may_share.begin(), node.may_share.end());
  return pairs;
}

bool is_barrier(const Node& node) {
  const OpTraits& trait = node.schema->trait();
  return trait.host || trait.effect || !node.regions.empty() || !node.shared.empty() ||
         !value_operands(node).empty();
}

void map_operands(Node& node, const std::function<int(int)>& map) {
  const auto take = [&](int& value) {
    if (value >= 0) value = map(value);
  };
  for (int& value : node.ins) take(value);
  for (Region& region : node.regions) {
    for (Region::Link& link : region.reads) take(link.outer);
    for (Region::Port& port : region.ports) {
      take(port.from);
      take(port.like);
    }
  }
  for (Node& part : node.parts) map_operands(part, map);
  for (Node& member : node.members) map_operands(member, map);
}

OpView view_of(const Node& node, const std::vector<ValueInfo*>& facts) {
  OpView view(*node.schema, *node.attrs, node.decided);
  const auto add = [&facts](const std::vector<SlotSpec>& slots, const std::vector<int>& counts,
                            const std::vector<int>& values, auto operands, auto to_view) {
    size_t at = 0;
    for (size_t s = 0; s < slots.size(); ++s) {
      operands.clear();
      for (int i = 0; i < counts[s]; ++i) {
        const int value = values[at + i];
        operands.push_back(value < 0 ? nullptr : facts[value]);
      }
      at += positions(slots[s], counts[s]);
      to_view(slots[s].name, operands);
    }
  };
  add(node.schema->inputs(), node.in_counts, node.ins, std::vector<const ValueInfo*>(),
      [&](const auto&... slot) { view.add_in(slot...); });
  add(node.schema->outputs(), node.out_counts, node.outs, std::vector<ValueInfo*>(),
      [&](const auto&... slot) { view.add_out(slot...); });
  view.seal();
  return view;
}

Error& add_node_context(Error& error, const Node& node, const std::vector<ValueInfo*>& facts) {
  if (error.has_op()) return error;
  const std::string& type = node.schema->type();
  error.in(node.schema->trait().primitive ? node.origin->op_type : type);
  const auto& ins = node.schema->inputs();
  size_t at = 0;
  for (size_t s = 0; s < ins.size(); ++s) {
    for (int i = 0; i < node.in_counts[s]; ++i) {
      const ValueInfo& info = *facts[node.ins[at + i]];
      error.operand(cat(ins[s].name, "   ", info.name.empty() ? "(computed)" : info.name, "   ",
                        info.type == VarType::selected_rows ? "selected rows of " : "",
                        name_of(info.dtype), " ", info.shape.to_string(),
                        info.lod.empty() ? "" : " lod " + to_string(info.lod)));
    }
    at += positions(ins[s], node.in_counts[s]);
  }
  return error.at(node.origin->line);
}

std::string Graph::to_text() const {
  std::string text;
  const auto list = [&text](const std::vector<int>& values, bool with_absent) {
    const char* between = "";
    for (int value : values) {
      if (value < 0 && !with_absent) continue;
      text += std::exchange(between, ", ");
      text += value < 0 ? "_" : "%" + std::to_string(value);
    }
  };
  for (const Node& node : nodes) {
    list(node.outs, false);
    text += " = " + node.schema->type() + "(";
    list(node.ins, true);
    text += ")\n";
  }
  return text;
}

}  // namespace trireme
