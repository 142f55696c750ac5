// Pruning: keeps the ops that targets need, given what is fed.
//
// Each block is walked from its last op to its first. An op is kept if it is a target, or if it
// writes a needed variable and is no optimizer's op; what it reads is needed from then on, except
// what is fed. A kept op's sub-block is pruned in the same way, all that the op reads and writes
// being needed in it, and what the sub-block reads from outside is needed outside.
#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "ir/copy.h"
#include "ir/schema.h"

namespace trireme {
namespace {

using NameSet = std::set<std::string, std::less<>>;

class Pruner {
 public:
  Pruner(const Program& program, const std::vector<std::string>& feeds);

  void add_target(const std::string& name);
  void add_optimizers();
  std::shared_ptr<Program> result();

 private:
  bool is_target(const Op& op) const { return op.is_target || targets_.count(&op); }
  bool is_optimizer(const Op& op) const { return op.has_role(op_role::kOptimize); }
  bool writes_any(const Op& op, const NameSet& names) const;
  void need(NameSet& needed, const std::vector<std::string>& names) const;
  void need_inputs(const Op& op, NameSet& needed) const;
  NameSet produced_from_feeds() const;
  void walk(const Block& block, NameSet needed);
  void walk_sub_blocks(const Op& op, NameSet& needed);
  void keep_whole(const Block& block);
  void need_outer_reads(const Block& inner, NameSet& needed) const;
  void need_forward_values(const Block& inner, int forward);

  const Program& program_;
  const NameSet feeds_;
  std::set<const Op*> targets_;
  std::set<const Var*> target_vars_;
  std::set<int> blocks_;         // those that are kept
  std::vector<int> references_;  // how many attributes name each block
  std::vector<std::vector<const Op*>> ops_;
  std::map<int, NameSet> forward_values_;  // by block: what its gradient block reads of it
};

Pruner::Pruner(const Program& program, const std::vector<std::string>& feeds)
    : program_(program),
      feeds_(feeds.begin(), feeds.end()),
      references_(program.num_blocks()),
      ops_(program.num_blocks()) {
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (const Op* op : program.block(static_cast<int>(i)).ops()) {
      for (const auto& [key, value] : op->attrs()) {
        for (const int index : blocks_in(value)) {
          ++references_[static_cast<size_t>(program.block(index).index())];
        }
      }
    }
  }
}

bool Pruner::writes_any(const Op& op, const NameSet& names) const {
  const std::vector<std::string> written = op.output_names();
  return std::ranges::any_of(written, [&](const std::string& name) { return names.count(name); });
}

void Pruner::need(NameSet& needed, const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (!feeds_.count(name)) needed.insert(name);
  }
}

void Pruner::need_inputs(const Op& op, NameSet& needed) const {
  need(needed, op.input_names());
  for (const auto& [key, value] : op.attrs()) {
    if (const auto* ref = std::get_if<VarRef>(&value)) need(needed, {ref->name});
    if (const auto* refs = std::get_if<VarRefs>(&value)) need(needed, refs->names);
  }
}

// What the global block's ops can compute from the feeds and from persistable variables alone.
NameSet Pruner::produced_from_feeds() const {
  const Block& block = program_.global_block();
  NameSet produced;
  for (const Op* op : block.ops()) {
    const std::vector<std::string> reads = op->input_names();
    const bool runnable = std::ranges::all_of(reads, [&](const std::string& name) {
      const Var* var = block.find_var(name);
      return !var || var->persistable() || produced.count(name) || feeds_.count(name);
    });
    if (!runnable) continue;
    for (const std::string& name : op->output_names()) produced.insert(name);
  }
  return produced;
}

void Pruner::add_target(const std::string& name) {
  const Block& block = program_.global_block();
  const Var* var = block.find_var(name);
  if (var) target_vars_.insert(var);
  if (feeds_.count(name) && !produced_from_feeds().count(name)) return;
  const Op* last = nullptr;
  for (const Op* op : block.ops()) {
    const std::vector<std::string> written = op->output_names();
    const auto is_it = [&](const std::string& output) { return op->own_name(output) == name; };
    if (std::ranges::none_of(written, is_it)) continue;
    if (!is_optimizer(*op) || is_target(*op)) last = op;
  }
  if (last) {
    targets_.insert(last);
    return;
  }
  // Nothing needs to run for what is fed or already lies in the scope.
  if (feeds_.count(name) || (var && var->persistable())) return;
  if (!var) {
    throw Error(cat("target ", name, " is not a variable of the program's global block"));
  }
  throw Error(cat("target ", name, " is produced by no op of the program"))
      .operand(cat(name, "   ", var->describe()))
      .fix(var->is_data() ? cat("feed ", name) : "choose a variable that an op writes");
}

void Pruner::add_optimizers() {
  for (size_t i = 0; i < program_.num_blocks(); ++i) {
    for (const Op* op : program_.block(static_cast<int>(i)).ops()) {
      if (is_optimizer(*op)) targets_.insert(op);
    }
  }
}

// Feed ops stand first and fetch ops last, or a feed in the middle would be cut off its readers.
void check_feed_fetch_order(const Block& block) {
  const std::vector<Op*> ops = block.ops();
  const auto refuse = [&](const Op& op, const char* rule) {
    throw Error(ErrorKind::precondition, cat("op ", op.index(), " of block ", block.index(),
                                             " is a ", op.type(), " op, but ", rule))
        .in(op.type())
        .at(op.line());
  };
  std::vector<Marker> markers;
  for (const Op* op : ops) markers.push_back(traits_of(*op).marker);
  for (size_t i = 1; i < ops.size(); ++i) {
    if (markers[i] == Marker::feed && markers[i - 1] != Marker::feed) {
      refuse(*ops[i], "all feed ops must come first");
    }
    if (markers[i - 1] == Marker::fetch && markers[i] != Marker::fetch) {
      refuse(*ops[i - 1], "all fetch ops must come last");
    }
  }
}

void Pruner::walk(const Block& block, NameSet needed) {
  check_feed_fetch_order(block);
  blocks_.insert(block.index());
  std::vector<const Op*>& kept = ops_[static_cast<size_t>(block.index())];
  const std::vector<Op*> ops = block.ops();
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    bool keep = is_target(**op) || (writes_any(**op, needed) && !is_optimizer(**op));
    // Loops write fed variables for their next round.
    const bool in_loop = block.parent_index() >= 0 || (*op)->has_attr("sub_block");
    if (!keep && in_loop) keep = writes_any(**op, feeds_);
    if (!keep) continue;
    need_inputs(**op, needed);
    kept.push_back(*op);
    walk_sub_blocks(**op, needed);
  }
  std::reverse(kept.begin(), kept.end());
}

void Pruner::walk_sub_blocks(const Op& op, NameSet& needed) {
  for (const auto& [key, value] : op.attrs()) {
    for (const int index : blocks_in(value)) {
      if (blocks_.count(index)) continue;
      const Block& inner = program_.block(index);
      const bool alone = references_[static_cast<size_t>(index)] == 1;
      // Gradient blocks have names of their own for what enters and leaves them.
      if (key == "sub_block" && alone && inner.forward_index() < 0) {
        NameSet inside = forward_values_[index];
        need_inputs(op, inside);
        need(inside, op.output_names());
        const OpSchema* row = op_table().find(op.type());
        if (row && row->border_rule()) {
          for (const auto& [written, read] : row->border_rule()(op).handed) {
            if (!written.empty()) need(inside, {written});
            if (!read.empty()) need(inside, {read});
          }
        }
        walk(inner, std::move(inside));
      } else {
        keep_whole(inner);  // other ops use it too, or we do not know what it is for
      }
      need_outer_reads(inner, needed);
      if (inner.forward_index() >= 0) need_forward_values(inner, inner.forward_index());
    }
  }
}

// Gradient ops come after the forward op, so this is known when its block is walked.
void Pruner::need_forward_values(const Block& inner, int forward) {
  for (const Op* op : ops_[static_cast<size_t>(inner.index())]) {
    for (const std::string& name : op->input_names()) {
      if (program_.block(forward).find_var(name)) forward_values_[forward].insert(name);
    }
    for (const auto& [key, value] : op->attrs()) {
      for (const int index : blocks_in(value)) need_forward_values(program_.block(index), forward);
    }
  }
}

void Pruner::keep_whole(const Block& block) {
  if (!blocks_.insert(block.index()).second) return;
  const std::vector<Op*> ops = block.ops();
  ops_[static_cast<size_t>(block.index())].assign(ops.begin(), ops.end());
  for (const Op* op : ops) {
    for (const auto& [key, value] : op->attrs()) {
      for (const int index : blocks_in(value)) keep_whole(program_.block(index));
    }
  }
}

void Pruner::need_outer_reads(const Block& inner, NameSet& needed) const {
  for (const Op* op : ops_[static_cast<size_t>(inner.index())]) {
    for (const std::string& name : op->input_names()) {
      if (!inner.find_var(name)) need(needed, {name});
    }
    for (const auto& [key, value] : op->attrs()) {
      for (const int index : blocks_in(value)) {
        if (index != inner.index()) need_outer_reads(program_.block(index), needed);
      }
    }
  }
}

std::shared_ptr<Program> Pruner::result() {
  walk(program_.global_block(), {});
  Selection selection{ops_, named_vars(program_, ops_)};
  for (size_t i = 0; i < selection.vars.size(); ++i) {
    std::vector<const Var*>& vars = selection.vars[i];
    for (const Var* var : program_.block(static_cast<int>(i)).vars()) {
      const bool missing = std::ranges::find(vars, var) == vars.end();
      if (missing && target_vars_.count(var)) vars.push_back(var);
    }
    std::ranges::sort(vars, {}, [](const Var* var) { return var->name(); });
  }
  std::shared_ptr<Program> pruned = copy_selected(program_, selection);
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (size_t j = 0; j < ops_[i].size(); ++j) {
      pruned->block(static_cast<int>(i)).op(j).is_target = is_target(*ops_[i][j]);
    }
  }
  pruned->keep_blocks({blocks_.begin(), blocks_.end()});
  return pruned;
}

}  // namespace

std::shared_ptr<Program> prune(const Program& program, const std::vector<std::string>& feeds,
                               const std::vector<std::string>& targets) {
  Pruner pruner(program, feeds);
  for (const std::string& name : targets) pruner.add_target(name);
  return pruner.result();
}

std::shared_ptr<Program> prune_keeping_optimizers(const Program& program,
                                                  const std::vector<std::string>& feeds,
                                                  const std::vector<std::string>& targets) {
  Pruner pruner(program, feeds);
  pruner.add_optimizers();
  for (const std::string& name : targets) pruner.add_target(name);
  return pruner.result();
}

}  // namespace trireme
