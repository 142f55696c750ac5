// Names to versions, op by op: reads, writes, states, and the node or body of each op.
#include "compile/lower.h"

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

ValueInfo facts_of(const Var& var) {
  ValueInfo info;
  info.type = var.type();
  info.dtype = var.dtype();
  info.shape = var.shape();
  info.lod_level = var.lod_level();
  info.name = var.name();
  info.known = var.has_shape();
  return info;
}

const OpSchema& row_of(const Op& op, const LowerRequest& request) {
  const OpSchema& row = op_table().get(op.type());
  const std::string& over_replicas = row.trait().over_replicas;
  return request.sync_batch_norm && !over_replicas.empty() ? op_table().get(over_replicas) : row;
}

bool writes(const Op& op, const std::string& name) {
  const auto names = op.output_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool writes(const Block& block, const std::string& name) {
  const std::vector<Op*> ops = block.ops();
  return std::any_of(ops.begin(), ops.end(), [&](const Op* op) { return writes(*op, name); });
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

}  // namespace

BlockLowering::BlockLowering(const Block& block, Graph& graph, Lowering& shared,
                             BlockLowering* outer)
    : block_(block), graph_(graph), shared_(shared), outer_(outer) {
  const auto forward = shared.forwards.find(block.forward_index());
  if (forward != shared.forwards.end()) forward_ = &forward->second;
}

void BlockLowering::feed(const std::string& name, const FeedFacts& facts) {
  ValueInfo info;
  info.type = facts.type;
  info.dtype = facts.dtype;
  info.shape = facts.shape;
  info.lod_level = facts.lod_level;
  info.name = name;
  const int value = graph_.add_value(std::move(info));
  graph_.feeds.push_back({name, value});
  write(name, value);
}

void BlockLowering::run() {
  for (const Op* op : block_.ops()) {
    auto origin = std::make_shared<Origin>();
    origin->op_type = op->type();
    origin->row = op_table().find(op->type());
    origin->line = op->line();
    origin->role = op->role();
    origin->recompute = op->attr_or<std::string>(kRecomputeSuffix, "");
    graph_.origin = origin;
    try {
      lower_op(*op);
    } catch (Error& e) {
      if (!e.has_op()) e.in(op->type());
      e.at(op->line());
      throw;
    }
  }
}

// The value a variable had under its own name, whoever took that name since (memory_optimize) or
// ended its life (delete_var).
int BlockLowering::fetch(const std::string& name) {
  if (const auto own = own_.find(name); own != own_.end()) return own->second;
  if (const int* value = find(name)) return *value;
  const Var* var = find_var(name);
  if (!var) {
    throw Error(ErrorKind::not_found,
                cat("fetch_list names ", name, ", which the program does not have"))
        .fix("fetch a variable of this program: print(program) lists them");
  }
  return read(*var, name);
}

const int* BlockLowering::find(const std::string& name) const {
  const auto it = current_.find(name);
  return it == current_.end() ? nullptr : &it->second;
}

const Var* BlockLowering::find_var(const std::string& name) const {
  if (const Var* var = block_.find_var_recursive(name)) return var;
  const auto state = shared_.inner_states.find(name);
  return state == shared_.inner_states.end() ? nullptr : state->second;
}

// Whether the name belongs to the forward block of this gradient block: a local variable, or an
// outer one that each iteration changes.
bool BlockLowering::of_forward(const std::string& name) const {
  if (!forward_ || linked_.contains(name) || block_.find_var(name)) return false;
  return forward_->written.contains(name) ||
         block_.program().block(block_.forward_index()).find_var(name) != nullptr;
}

// Whether the name belongs to a block around this one. Persistable variables belong to the first.
bool BlockLowering::is_outer(const std::string& name) const {
  if (outer_ == nullptr || linked_.contains(name) || of_forward(name)) return false;
  const Var* var = block_.find_var(name);
  if (var && var->persistable()) shared_.inner_states.emplace(name, var);
  return !var || var->persistable();
}

int BlockLowering::read(const std::string& name) {
  if (const int* value = find(name)) return *value;
  if (of_forward(name)) return load(name);
  if (deleted_.contains(name)) {
    throw Error(ErrorKind::precondition, cat("it reads ", name, ", which delete_var has ended"))
        .fix(cat("put ", name, " into release_memory's skip_opt_set"));
  }
  const Var* var = find_var(name);
  if (!var) {
    throw Error(ErrorKind::not_found, cat("it reads ", name, ", which no block declares"))
        .fix("create the variable before the op that reads it");
  }
  return read(*var, name);
}

int BlockLowering::read(const Var& var, const std::string& name) {
  if (is_outer(name)) {
    const int outer = outer_->read(name);
    ValueInfo info = outer_->graph_.values[outer].info;
    if (writes(block_, name)) info.shape = common_extents(info.shape, var.shape());
    const int inner = graph_.add_value(std::move(info));
    reads_.push_back({inner, outer});
    entry_[name] = inner;
    current_[name] = inner;
    return inner;
  }
  if (var.type() == VarType::lod_tensor_array && !var.persistable()) {
    // Nothing has written it: an array begins empty.
    const int value = graph_.emit("p.empty_array", {}, {}).front();
    graph_.values[value].info = facts_of(var);
    write(name, value);
    return value;
  }
  if (!var.persistable()) {
    if (var.is_data()) {
      throw Error(cat("it reads the data variable ", name, ", which is not fed"))
          .fix(cat("add '", name, "' to feed"));
    }
    throw Error(ErrorKind::precondition,
                cat("it reads ", name,
                    ", which holds nothing yet: no op before it writes it, it is not fed and not "
                    "persistable"))
        .fix(cat("feed ", name, ", make it persistable, or put the op that writes it first"));
  }
  const int value = graph_.add_value(facts_of(var));
  states_[name] = graph_.states.size();
  graph_.states.push_back({name, value, value});
  current_[name] = value;
  return value;
}

void BlockLowering::write(const std::string& name, int value) { write(name, value, name); }

// `own`: the variable whose value it is, where memory_optimize let it use another's name.
void BlockLowering::write(const std::string& name, int value, const std::string& own) {
  current_[name] = value;
  own_[own] = value;
  deleted_.erase(name);
  if (is_outer(name)) {
    written_outer_.insert(name);
    return;
  }
  if (outer_) return;
  const Var* var = find_var(name);
  if (!var || !var->persistable()) return;
  const auto [it, fresh] = states_.try_emplace(name, graph_.states.size());
  if (fresh) graph_.states.push_back({name, -1, -1});
  graph_.states[it->second].exit = value;
}

// Nothing has written it and reading it would fail.
bool BlockLowering::unreadable(const std::string& name) const {
  if (find(name) || of_forward(name)) return false;
  const Var* var = find_var(name);
  if (!var) return true;
  if (is_outer(name)) return outer_->unreadable(name);
  return !var->persistable() && var->type() != VarType::lod_tensor_array;
}

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
  const bool deletes = schema.trait().marker == Marker::end_of_life;
  auto attrs = std::make_shared<Attrs>(op.attrs());
  // Files written elsewhere may leave attributes out or use a neighbouring number type.
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

  // Lists of an op with a sub-block say what crosses its border; the border itself is found by
  // lowering the sub-block. Gradients read nothing else.
  const Block* sub_block = op.sub_block();
  const bool gradient = sub_block && sub_block->forward_index() >= 0;

  OpView view(schema, *attrs);
  std::vector<int> ins;
  std::vector<std::vector<int>> by_slot;
  for (const SlotSpec& slot : schema.inputs()) {
    std::vector<int> ids;
    for (const std::string& name : op.input(slot.name)) {
      if (name == kEmptyVar || (gradient && slot.duplicable)) continue;
      if (deletes && deleted_.contains(name)) continue;
      // A gradient nobody computes counts as absent where the slot allows it.
      if (slot.dispensable && unreadable(name)) continue;
      ids.push_back(read(name));
    }
    by_slot.push_back(ids);
  }
  // Reading may add values and move the table, so pointers are taken only now.
  for (size_t s = 0; s < by_slot.size(); ++s) {
    const SlotSpec& slot = schema.inputs()[s];
    if (by_slot[s].empty() && !slot.duplicable) ins.push_back(-1);
    for (int id : by_slot[s]) ins.push_back(id);
  }
  std::vector<ValueInfo> facts;
  facts.reserve(ins.size());
  for (int id : ins) facts.push_back(id < 0 ? ValueInfo{} : graph_.values[id].info);
  size_t at = 0;
  for (size_t s = 0; s < by_slot.size(); ++s) {
    std::vector<const ValueInfo*> operands;
    for (size_t i = 0; i < by_slot[s].size(); ++i) operands.push_back(&facts[at + i]);
    at += std::max<size_t>(by_slot[s].size(), schema.inputs()[s].duplicable ? 0 : 1);
    view.add_in(schema.inputs()[s].name, operands);
  }

  std::vector<std::unique_ptr<ValueInfo>> results;
  std::vector<std::string> result_names;  // by position
  for (const SlotSpec& slot : schema.outputs()) {
    std::vector<ValueInfo*> operands;
    const auto& names = op.output(slot.name);
    for (const std::string& name : names) {
      const bool empty = name == kEmptyVar;
      if ((empty && !slot.duplicable) || (sub_block && slot.duplicable)) continue;
      result_names.push_back(empty ? "" : name);
      if (empty) {
        operands.push_back(nullptr);
        continue;
      }
      // Under its own name: random streams and errors do not see that memory is shared.
      const std::string& own = op.own_name(name);
      const Var* var = find_var(own);
      results.push_back(std::make_unique<ValueInfo>(var ? facts_of(*var) : ValueInfo{}));
      results.back()->name = own;
      operands.push_back(results.back().get());
    }
    if (operands.empty() && !slot.duplicable) result_names.push_back("");
    view.add_out(slot.name, operands);
  }
  view.seal();
  check_present(schema, view);
  const bool inferred = schema.shape_rule() && !schema.trait().no_inference;
  if (inferred) schema.shape_rule()(view);
  if (schema.trait().host) forget_rows(view);

  if (sub_block) {
    lower_region(op, schema, attrs, view, ins, result_names);
    return;
  }
  std::vector<int> outs;
  if (schema.body_rule() && all_dense(view)) {
    Body body(graph_, view, ins);
    schema.body_rule()(body);
    for (size_t i = 0; i < view.out_size(); ++i) {
      const Expr result = body.results()[i];
      if (!result && view.out_at(i) && !result_names[i].empty() &&
          required_output(schema, view, i)) {
        throw InternalError(cat("the body of ", schema.type(), " leaves an output unset"));
      }
      outs.push_back(result ? result.id() : -1);
    }
  } else if (schema.kernels().empty() && schema.forward()) {
    if (!all_dense(view)) {
      throw Error(ErrorKind::unimplemented, cat(op.type(), " takes dense tensors only"));
    }
    outs = lower_by_vjp(graph_, view, ins);
  } else {
    const std::vector<int> held = held_versions(op, schema);
    outs = graph_.add_node(schema, attrs, view, ins).outs;
    update_in_place(op, schema, held);
  }
  if (deletes) {
    for (const std::string& name : op.input("X")) {
      current_.erase(name);
      deleted_.insert(name);
    }
  }
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i] < 0 || result_names[i].empty()) continue;
    if (graph_.values[outs[i]].info.name.empty())
      graph_.values[outs[i]].info.name = result_names[i];
    write(result_names[i], outs[i], op.own_name(result_names[i]));
  }
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
    held.push_back(old_version(op.output(slot).at(0)));
    promise(held.back() >= 0, "an output that is updated can be read");
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
  for (size_t i = 0; i < held.size(); ++i) {
    const std::string& name = op.own_name(op.output(schema.trait().updates[i]).at(0));
    for (int value : std::vector<int>(graph_.nodes[index].outs)) {
      if (value >= 0 && graph_.values[value].info.name == name) share(held[i], value);
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

Graph lower(const Program& program, const LowerRequest& request) {
  Graph graph;
  Lowering shared{.request = request};
  BlockLowering lowering(program.global_block(), graph, shared, nullptr);
  for (const auto& [name, facts] : request.feeds) lowering.feed(name, facts);
  lowering.run();
  for (const std::string& name : request.fetches) {
    graph.fetches.push_back({name, lowering.fetch(name)});
  }
  return graph;
}

}  // namespace trireme
