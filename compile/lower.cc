// Names to versions: reads, writes and states of a block, and the ops one after another.
#include "compile/lower.h"

#include <algorithm>

#include "compile/block_lowering.h"
#include "core/text.h"

namespace trireme {
namespace {

bool writes(const Op& op, const std::string& name) {
  const auto names = op.output_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool writes(const Block& block, const std::string& name) {
  const std::vector<Op*> ops = block.ops();
  return std::any_of(ops.begin(), ops.end(), [&](const Op* op) { return writes(*op, name); });
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
  int number = 0;
  for (const Op* op : block_.ops()) {
    auto origin = std::make_shared<Origin>();
    origin->block = block_.index();
    origin->op = number++;
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
  if (var->type() == VarType::raw) return true;  // of the original's kernels
  return !var->persistable() && var->type() != VarType::lod_tensor_array;
}

// By an op before, here or in a block around.
bool BlockLowering::is_written(const std::string& name) const {
  return find(name) || of_forward(name) || (is_outer(name) && outer_->is_written(name));
}

Graph lower(const Program& program, const LowerRequest& request) {
  Graph graph;
  Lowering shared{.request = request};
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    const Block& block = program.block(static_cast<int>(b));
    if (block.forward_index() >= 0) shared.gradients.emplace(block.forward_index(), &block);
  }
  BlockLowering lowering(program.global_block(), graph, shared, nullptr);
  for (const auto& [name, facts] : request.feeds) lowering.feed(name, facts);
  lowering.run();
  for (const std::string& name : request.fetches) {
    graph.fetches.push_back({name, lowering.fetch(name)});
  }
  return graph;
}

}  // namespace trireme
