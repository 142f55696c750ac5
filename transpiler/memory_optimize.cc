// Finds variables that may share a name, and those whose life can be ended.
#include "transpiler/memory_optimize.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/text.h"
#include "core/warning.h"
#include "ir/schema.h"
#include "transpiler/liveness.h"

namespace trireme {
namespace {

using Names = std::set<std::string>;

int64_t size_product(const Shape& shape) {
  int64_t product = 1;
  for (const Dim dim : shape) product *= dim.known() ? dim.value() : 1;  // |-1| is 1
  return product;
}

bool has_batch(const Shape& shape) { return !shape[0].known(); }

// Gradients of parameters: as backward leaves them, and as updates take them.
Names parameter_grads(const Program& program) {
  Names grads;
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    for (const Op* op : program.block(static_cast<int>(b)).ops()) {
      const auto vars = op->attr_or<std::vector<std::string>>("op_role_var", {});
      if (!op->has_role(op_role::kBackward) && !op->has_role(op_role::kOptimize)) continue;
      for (size_t i = 1; i < vars.size(); i += 2) grads.insert(vars[i]);
    }
  }
  return grads;
}

// Outputs of ops that are pinned to the host.
Names host_outputs(const Block& block) {
  Names names;
  for (const Op* op : block.ops()) {
    if (!op->attr_or<bool>("force_cpu", false)) continue;
    for (const std::string& name : op->output_names()) names.insert(name);
  }
  return names;
}

// A temporary tensor of this block that may be touched.
bool qualifies(const Block& block, const std::string& name, const Names& skip) {
  const Var* var = block.find_var(name);
  return var && !var->persistable() && var->type() == VarType::lod_tensor && var->has_shape() &&
         var->shape().rank() > 0 && !skip.contains(name);
}

Names skipped(const Block& block, const BlockLiveness& live, const Names& asked) {
  Names skip = asked;
  skip.merge(host_outputs(block));
  skip.insert(live.kept.begin(), live.kept.end());
  return skip;
}

// Names that are free, those with an unknown batch first, each group from small to large.
class Pool {
 public:
  struct Entry {
    std::string name;
    const Var* var;
  };

  void add(const Var& var) {
    const auto same = [&](const Entry& entry) { return entry.name == var.name(); };
    if (std::ranges::any_of(entries_, same)) return;
    const auto after = std::ranges::find_if(entries_, [&](const Entry& entry) {
      const bool batch = has_batch(entry.var->shape());
      if (batch != has_batch(var.shape())) return !batch;
      return size_product(entry.var->shape()) > size_product(var.shape());
    });
    entries_.insert(after, {var.name(), &var});
  }

  // The first that `var` fits into.
  std::optional<size_t> find(const Var& var, int level) const {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Var& held = *entries_[i].var;
      if (held.dtype() == var.dtype() && fits(var.shape(), held.shape(), level)) return i;
    }
    return std::nullopt;
  }

  Entry take(size_t index) {
    Entry entry = entries_[index];
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
    return entry;
  }

  size_t size() const { return entries_.size(); }

 private:
  static bool fits(const Shape& shape, const Shape& into, int level) {
    if (level == 0) return shape == into;
    return has_batch(shape) == has_batch(into) && size_product(shape) <= size_product(into);
  }

  std::vector<Entry> entries_;
};

// Ops that write facts by inference: their outputs do not depend on what the name declares.
bool infers(const Op& op) {
  const OpSchema* row = op_table().find(op.type());
  return !row || !row->trait().no_inference;
}

class NameSharing {
 public:
  NameSharing(Block& block, const Names& skip, const MemoryOptimizeOptions& options, int& count)
      : block_(block), live_(find_liveness(block)), options_(options), count_(count) {
    skip_ = skipped(block, live_, skip);
  }

  void run() {
    const std::vector<Op*> ops = block_.ops();
    for (size_t i = 0; i < ops.size(); ++i) {
      if (!live_.is_container[i] && infers(*ops[i]) && ops[i]->type() != "feed")
        place_outputs(*ops[i]);
      std::vector<std::string> free;
      for (const std::string& name : live_.dying[i]) {
        if (may_host(name)) free.push_back(name_now(name));
      }
      std::ranges::sort(free);
      for (const std::string& name : free) pool_.add(block_.var(name));
    }
    rename(ops);
  }

 private:
  const std::string& name_now(const std::string& name) const {
    const auto found = shares_.find(name);
    return found == shares_.end() ? name : found->second;
  }

  // Its own one life here ends; fed variables are the caller's memory.
  bool may_host(const std::string& name) const {
    return qualifies(block_, name, skip_) && live_.one_life.contains(name) &&
           !block_.var(name).is_data();
  }

  void place_outputs(const Op& op) {
    const std::vector<std::string> reads = op.input_names();
    for (const std::string& name : op.output_names()) {
      if (!qualifies(block_, name, skip_) || !live_.one_life.contains(name)) continue;
      if (live_.nested.contains(name) || !born_.insert(name).second) continue;
      if (std::ranges::find(reads, name) != reads.end()) continue;
      const Var& var = block_.var(name);
      const std::optional<size_t> at = pool_.find(var, options_.level);
      if (!at) continue;
      const size_t pool_size = pool_.size();
      const Pool::Entry host = pool_.take(*at);
      shares_[name] = host.name;
      log(cat("!!! ", count_++, ",  ", name, var.shape(), " => ", host.name, host.var->shape(),
              ", cache idx ", *at, ", pool size ", pool_size));
    }
  }

  void rename(const std::vector<Op*>& ops) {
    if (shares_.empty()) return;
    const auto renamed = [&](std::vector<std::string> names) {
      for (std::string& name : names) name = name_now(name);
      return names;
    };
    for (Op* op : ops) {
      std::map<std::string, std::string, std::less<>> former;
      for (const std::string& name : op->output_names()) {
        if (shares_.contains(name)) former[shares_[name]] = op->own_name(name);
      }
      for (const auto& [slot, names] : Slots(op->inputs())) op->set_input(slot, renamed(names));
      for (const auto& [slot, names] : Slots(op->outputs())) op->set_output(slot, renamed(names));
      for (auto& [now, own] : former) op->former_names[now] = own;
      for (const auto& [key, value] : Attrs(op->attrs())) {
        if (const auto* ref = std::get_if<VarRef>(&value)) {
          op->set_attr(key, VarRef{name_now(ref->name)});
        } else if (const auto* refs = std::get_if<VarRefs>(&value)) {
          op->set_attr(key, VarRefs{renamed(refs->names)});
        } else if (key == "op_role_var") {
          op->set_attr(key, renamed(attr_as<std::vector<std::string>>(value, key)));
        }
      }
    }
  }

  void log(const std::string& line) const {
    if (options_.print_log) print_log_line(options_.print, line);
  }

  Block& block_;
  const BlockLiveness live_;
  const MemoryOptimizeOptions& options_;
  int& count_;
  Names skip_, born_;
  Pool pool_;
  std::map<std::string, std::string> shares_;  // variable -> the name it takes
};

}  // namespace

void memory_optimize(Program& program, const MemoryOptimizeOptions& options) {
  if (options.level != 0 && options.level != 1) {
    throw Error(cat("level is ", options.level, " but only 0 and 1 are allowed"))
        .in("memory_optimize")
        .fix("level=0 shares names between equal shapes, level=1 also between different ones");
  }
  Names skip = options.skip_opt_set;
  if (options.skip_grads) skip.merge(parameter_grads(program));
  int count = 0;
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    NameSharing(program.block(static_cast<int>(i)), skip, options, count).run();
  }
  program.memory_optimized = true;
  program.touch();
}

void release_memory(Program& program, const std::set<std::string>& skip_opt_set) {
  warn("release_memory is experimental: plans free memory by themselves, and it may go away");
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    Block& block = program.block(static_cast<int>(b));
    const BlockLiveness live = find_liveness(block);
    const Names skip = skipped(block, live, skip_opt_set);
    const std::vector<Op*> ops = block.ops();
    for (size_t i = ops.size(); i-- > 0;) {
      std::vector<std::string> names;
      std::ranges::copy_if(live.dying[i], std::back_inserter(names),
                           [&](const std::string& name) { return qualifies(block, name, skip); });
      if (names.empty() || ops[i]->type() == "fetch" || ops[i]->type() == "delete_var") continue;
      block.insert_op(i + 1,
                      {.type = "delete_var",
                       .inputs = {{"X", names}},
                       .attrs = {{"op_role", int32_t{ops[i]->role()}},
                                 {"op_role_var", std::vector<std::string>{}}}},
                      ops[i]->line());
    }
  }
  program.memory_optimized = true;
  program.touch();
}

int64_t temporary_bytes(const Program& program, int64_t batch) {
  std::map<const Var*, int64_t> bytes;
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    const Block& block = program.block(static_cast<int>(b));
    for (const Op* op : block.ops()) {
      std::vector<std::string> names = op->input_names();
      for (const std::string& name : op->output_names()) names.push_back(name);
      for (const std::string& name : names) {
        const Var* var = block.find_var_recursive(name);
        if (!var || var->persistable() || var->is_data() || var->type() != VarType::lod_tensor) {
          continue;
        }
        int64_t count = 1;
        for (const Dim dim : var->shape()) count *= dim.known() ? dim.value() : batch;
        bytes[var] = count * static_cast<int64_t>(size_of(var->dtype()));
      }
    }
  }
  int64_t total = 0;
  for (const auto& [var, size] : bytes) total += size;
  return total;
}

}  // namespace trireme
