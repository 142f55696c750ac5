// One op on its way into the graph: its operands as versions, then its node, its body or its
// gradient.
#include <algorithm>

#include "compile/block_lowering.h"
#include "compile/vjp.h"
#include "core/text.h"

namespace trireme {
namespace {

bool all_dense(const OpView& view) {
  for (size_t i = 0; i < view.in_size(); ++i) {
    const ValueInfo* info = view.in_at(i);
    if (info && info->type != VarType::lod_tensor) return false;
  }
  return true;
}

const OpSchema& row_of(const Op& op, const LowerRequest& request) {
  const OpSchema& row = op_table().get(op.type());
  const std::string& over_replicas = row.trait().over_replicas;
  return request.sync_batch_norm && !over_replicas.empty() ? op_table().get(over_replicas) : row;
}

bool required_output(const OpSchema& schema, const OpView& view, size_t position) {
  for (const SlotSpec& slot : schema.outputs()) {
    for (size_t i = 0; i < view.out_count(slot.name); ++i) {
      if (view.out_position(slot.name, i) == static_cast<int>(position)) {
        return !slot.dispensable && !slot.intermediate;
      }
    }
  }
  return false;
}

void check_present(const OpSchema& schema, const OpView& view) {
  for (const SlotSpec& slot : schema.inputs()) {
    if (!slot.dispensable && !slot.duplicable && !view.has(slot.name)) {
      throw Error(cat("input ", slot.name, " is missing")).fix(cat("give it ", slot.doc));
    }
  }
}

// How many rows a host op gives is known only when it has run: two elements of one array may
// differ.
void forget_rows(OpView& view) {
  for (size_t i = 0; i < view.out_size(); ++i) {
    ValueInfo* info = view.out_at(i);
    if (info && info->shape.rank() > 0) info->shape[0] = Dim();
  }
}

// Files written elsewhere may leave attributes out or use a neighbouring number type.
std::shared_ptr<Attrs> complete_attrs(const Op& op, const OpSchema& schema) {
  auto attrs = std::make_shared<Attrs>(op.attrs());
  for (const AttrSpec& attr : schema.attributes()) {
    const auto given = attrs->find(attr.name);
    if (given != attrs->end()) {
      given->second = convert(given->second, attr.type, attr.name);
    } else if (attr.fallback) {
      attrs->emplace(attr.name, *attr.fallback);
    } else {
      throw Error(cat("attribute ", attr.name, " is missing")).fix(cat("set it: ", attr.doc));
    }
  }
  return attrs;
}

// Some gradient ops of the original leave out operands that its kernels do not need (a shape that
// they know otherwise). Then they are those of the forward op, which wrote what the arriving
// gradient belongs to, unless they have been overwritten since. Empty: there are none.
std::vector<std::string> operands_of_forward(const Block& block, const Op& gradient,
                                             const OpSchema& row, const std::string& slot) {
  const OpSchema& forward = *row.forward();
  std::vector<std::string> operands;
  for (const SlotSpec& out : forward.outputs()) {
    const std::string arriving_slot = grad_name(out.name);
    if (!row.find_input(arriving_slot) || gradient.input(arriving_slot).size() != 1) continue;
    const int of = block.forward_index();
    for (const Op* op : of >= 0 ? block.program().block(of).ops() : block.ops()) {
      if (op == &gradient) break;
      const std::vector<std::string>& written = op->output(out.name);
      if (op->type() == forward.type() && written.size() == 1 &&
          grad_name(written[0]) == gradient.input(arriving_slot)[0]) {
        operands = forward.find_input(slot) ? op->input(slot) : op->output(slot);
        if (!forward.find_input(slot)) continue;
      }
      std::erase_if(operands, [op](const std::string& name) {
        return std::ranges::any_of(op->outputs(), [&](const auto& results) {
          return std::ranges::find(results.second, name) != results.second.end();
        });
      });
    }
    if (!operands.empty()) break;
  }
  return operands;
}

}  // namespace

void BlockLowering::lower_op(const Op& op) {
  const OpSchema& schema = row_of(op, shared_.request);
  switch (schema.trait().marker) {
    case Marker::none:
      break;
    case Marker::feed:
      return check_fed(op);
    case Marker::read:
      return check_read(op);
    case Marker::fetch:
    case Marker::reader:
      return;  // nothing to make
    case Marker::end_of_life:
      if (end_lives(op)) return;
      break;
  }
  const std::shared_ptr<Attrs> attrs = complete_attrs(op, schema);
  OpOperands operands{.view = OpView(schema, *attrs)};
  read_operands(op, schema, operands);
  add_results(op, schema, operands);
  OpView& view = operands.view;
  view.seal();
  check_present(schema, view);
  if (schema.shape_rule() && !schema.trait().no_inference) schema.shape_rule()(view);
  if (schema.trait().host) forget_rows(view);

  if (op.sub_block()) {
    lower_region(op, schema, attrs, view, operands.ins, operands.result_names);
    return;
  }
  const std::vector<int> outs = emit_op(op, schema, attrs, operands);
  if (schema.trait().marker == Marker::end_of_life) {
    for (const std::string& name : op.input("X")) {
      current_.erase(name);
      deleted_.insert(name);
    }
  }
  for (size_t i = 0; i < outs.size(); ++i) {
    const std::string& name = operands.result_names[i];
    if (outs[i] < 0 || name.empty()) continue;
    if (graph_.values[outs[i]].info.name.empty()) graph_.values[outs[i]].info.name = name;
    write(name, outs[i], op.own_name(name));
  }
}

// A gradient of a gradient reads what arrives at a list of gradients, which must stand where their
// variables do: one that was never computed counts as zeros. -1: a list that may have gaps.
int BlockLowering::zeros_in_place(const Op& op, const OpSchema& schema, const std::string& slot,
                                  size_t i) {
  const bool second = schema.forward() && schema.forward()->forward();
  const std::string of_first =
      second && slot.ends_with(kGradSuffix) ? slot.substr(0, slot.size() - kGradSuffix.size()) : "";
  if (!of_first.ends_with(kGradSuffix)) return -1;
  const auto& variables = op.input(of_first.substr(0, of_first.size() - kGradSuffix.size()));
  if (i >= variables.size()) {
    throw Error(ErrorKind::unimplemented,
                cat("only some gradients of the list ", of_first, " are there"))
        .fix("let gradients go through every variable of the list");
  }
  return full_like(Expr(&graph_, read(variables[i])), 0.0).id();
}

// Lists of an op with a sub-block say what crosses its border; the border itself is found by
// lowering the sub-block. Gradients read nothing else.
void BlockLowering::read_operands(const Op& op, const OpSchema& schema, OpOperands& operands) {
  const Block* sub_block = op.sub_block();
  const bool gradient = sub_block && sub_block->forward_index() >= 0;
  const bool deletes = schema.trait().marker == Marker::end_of_life;
  std::vector<std::vector<int>> by_slot;
  for (const SlotSpec& slot : schema.inputs()) {
    std::vector<int> ids;
    std::vector<std::string> names = op.input(slot.name);
    const bool left_out = names.empty() && !slot.dispensable && !slot.duplicable;
    if (left_out && schema.forward() && !schema.forward()->forward()) {
      names = operands_of_forward(block_, op, schema, slot.name);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      if (name == kEmptyVar && slot.duplicable) {
        const int zeros = zeros_in_place(op, schema, slot.name, i);
        if (zeros >= 0) ids.push_back(zeros);
        continue;
      }
      if (name == kEmptyVar || (gradient && slot.duplicable)) continue;
      if (deletes && deleted_.contains(name)) continue;
      // A gradient nobody computes counts as absent where the slot allows it.
      if (slot.dispensable && unreadable(name)) continue;
      ids.push_back(read(name));
    }
    by_slot.push_back(ids);
  }
  // Reading may add values and move the table, so facts are taken only now.
  for (size_t s = 0; s < by_slot.size(); ++s) {
    const SlotSpec& slot = schema.inputs()[s];
    if (by_slot[s].empty() && !slot.duplicable) operands.ins.push_back(-1);
    for (int id : by_slot[s]) operands.ins.push_back(id);
  }
  operands.facts.reserve(operands.ins.size());
  for (int id : operands.ins) {
    operands.facts.push_back(id < 0 ? ValueInfo{} : graph_.values[id].info);
  }
  size_t at = 0;
  for (size_t s = 0; s < by_slot.size(); ++s) {
    std::vector<const ValueInfo*> of_slot;
    for (size_t i = 0; i < by_slot[s].size(); ++i) of_slot.push_back(&operands.facts[at + i]);
    at += std::max<size_t>(by_slot[s].size(), schema.inputs()[s].duplicable ? 0 : 1);
    operands.view.add_in(schema.inputs()[s].name, of_slot);
  }
}

void BlockLowering::add_results(const Op& op, const OpSchema& schema, OpOperands& operands) {
  for (const SlotSpec& slot : schema.outputs()) {
    std::vector<ValueInfo*> of_slot;
    for (const std::string& name : op.output(slot.name)) {
      const bool empty = name == kEmptyVar;
      if ((empty && !slot.duplicable) || (op.sub_block() && slot.duplicable)) continue;
      operands.result_names.push_back(empty ? "" : name);
      if (empty) {
        of_slot.push_back(nullptr);
        continue;
      }
      // Under its own name: random streams and errors do not see that memory is shared.
      const std::string& own = op.own_name(name);
      const Var* var = find_var(own);
      operands.results.push_back(std::make_unique<ValueInfo>(var ? facts_of(*var) : ValueInfo{}));
      operands.results.back()->name = own;
      of_slot.push_back(operands.results.back().get());
    }
    if (of_slot.empty() && !slot.duplicable) operands.result_names.push_back("");
    operands.view.add_out(slot.name, of_slot);
  }
}

// The values that its results are, by position; -1: it leaves none there.
std::vector<int> BlockLowering::emit_op(const Op& op, const OpSchema& schema,
                                        std::shared_ptr<const Attrs> attrs,
                                        const OpOperands& operands) {
  const OpView& view = operands.view;
  if (schema.body_rule() && all_dense(view)) {
    Body body(graph_, view, operands.ins);
    schema.body_rule()(body);
    std::vector<int> outs;
    for (size_t i = 0; i < view.out_size(); ++i) {
      const Expr result = body.results()[i];
      if (!result && view.out_at(i) && !operands.result_names[i].empty() &&
          required_output(schema, view, i)) {
        throw InternalError(cat("the body of ", schema.type(), " leaves an output unset"));
      }
      outs.push_back(result ? result.id() : -1);
    }
    return outs;
  }
  if (schema.kernels().empty() && schema.forward()) {
    if (!all_dense(view)) {
      throw Error(ErrorKind::unimplemented, cat(op.type(), " takes dense tensors only"));
    }
    return lower_by_vjp(graph_, view, operands.ins);
  }
  const std::vector<int> held = held_versions(op, schema);
  std::vector<int> outs = graph_.add_node(schema, std::move(attrs), view, operands.ins).outs;
  update_in_place(op, schema, held);
  return outs;
}

void BlockLowering::check_fed(const Op& op) const {
  const std::string& name = op.output("Out").at(0);
  if (find(name)) return;
  throw Error(cat("the program expects ", name, " to be fed, and it is not"))
      .fix(cat("add '", name, "' to feed"));
}

// The caller takes a batch out of the reader and feeds it.
void BlockLowering::check_read(const Op& op) const {
  for (const std::string& name : op.output("Out")) {
    if (find(name)) continue;
    throw Error(ErrorKind::precondition,
                cat("reader ", op.input("Reader").at(0), " gave no ", name))
        .fix(cat("run the program where the reader was made, or feed '", name, "'"));
  }
}

// Memory of temporaries is planned, so ending their lives needs no instruction. True when that
// was all: persistable variables are cleared when the program runs.
bool BlockLowering::end_lives(const Op& op) {
  bool all = true;
  for (const std::string& name : op.input("X")) {
    const Var* var = find_var(name);
    if (var && var->persistable()) {
      all = false;
      continue;
    }
    current_.erase(name);
    deleted_.insert(name);
  }
  return all;
}

// What the outputs that the row updates hold before it runs.
std::vector<int> BlockLowering::held_versions(const Op& op, const OpSchema& schema) {
  std::vector<int> held;
  for (const std::string& slot : schema.trait().updates) {
    const bool list = schema.find_output(slot)->duplicable;  // of what there may be nothing yet
    for (const std::string& name : op.output(slot)) {
      held.push_back(old_version(name));
      promise(list || held.back() >= 0, "an output that is updated can be read");
    }
  }
  return held;
}

// Rows that change a variable in place: its old version joins the operands, or its new one the
// results, and both stand in one slot.
void BlockLowering::update_in_place(const Op& op, const OpSchema& schema,
                                    const std::vector<int>& held) {
  const int index = static_cast<int>(graph_.nodes.size()) - 1;
  const auto share = [&](int old, int changed) {
    Node& node = graph_.nodes[index];
    const auto out = std::find(node.outs.begin(), node.outs.end(), changed);
    node.ins.push_back(old);
    node.shared.emplace_back(static_cast<int>(node.ins.size()) - 1,
                             static_cast<int>(out - node.outs.begin()));
  };
  size_t next = 0;
  for (const std::string& slot : schema.trait().updates) {
    for (const std::string& updated : op.output(slot)) {
      const int old = held[next++];
      const std::string& name = op.own_name(updated);
      for (int value : std::vector<int>(graph_.nodes[index].outs)) {
        if (old >= 0 && value >= 0 && graph_.values[value].info.name == name) share(old, value);
      }
    }
  }
  if (!op.has_role(op_role::kBackward)) return;
  for (const std::string& slot : schema.trait().takes) {
    const std::string& name = op.input(slot).at(0);
    if (name.find(kGradSuffix) == name.npos) continue;
    const int old = *find(name);
    const int changed = graph_.add_value(graph_.values[old].info, index);
    graph_.nodes[index].outs.push_back(changed);
    share(old, changed);
    write(name, changed);
  }
}

}  // namespace trireme
