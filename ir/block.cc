// Blocks of a program: variables by name and in order of creation, and lookup through parents.
#include <algorithm>

#include "core/lookups.h"
#include "core/text.h"
#include "ir/program.h"
#include "ir/unique_name.h"

namespace trireme {
namespace {

[[noreturn]] void refuse(const Var& held, const char* what, const std::string& is,
                         const std::string& wanted) {
  throw Error(cat("variable ", held.name(), " exists with ", what, " ", is,
                  " and is asked for with ", wanted))
      .fix("give one of the two another name");
}

// Both state the same, or one of them leaves shape and element type open.
void check_agrees(const Var& held, const VarSpec& asked) {
  if (held.type() != asked.type) {
    refuse(held, "type", std::string(name_of(held.type())), std::string(name_of(asked.type)));
  }
  if (held.has_shape() && asked.has_shape) {
    if (!(held.shape() == asked.shape)) refuse(held, "shape", cat(held.shape()), cat(asked.shape));
    if (held.dtype() != asked.dtype) {
      refuse(held, "dtype", std::string(name_of(held.dtype())), std::string(name_of(asked.dtype)));
    }
    if (held.lod_level() != asked.lod_level) {
      refuse(held, "lod_level", cat(held.lod_level()), cat(asked.lod_level));
    }
  }
  if (held.persistable() != asked.persistable) {
    refuse(held, "persistable", held.persistable() ? "True" : "False",
           asked.persistable ? "True" : "False");
  }
}

}  // namespace

Block* Block::parent() const { return parent_ < 0 ? nullptr : &program_->block(parent_); }

void Block::set_parent_index(int index) {
  parent_ = index;
  program_->touch();
}

void Block::set_forward_index(int index) {
  forward_ = index;
  program_->touch();
}

Var* Block::find_var(std::string_view name) const {
  count_name_lookup();
  const auto found = vars_.find(name);
  return found == vars_.end() ? nullptr : found->second.get();
}

Var& Block::var(std::string_view name) const {
  if (Var* found = find_var(name)) return *found;
  throw Error(cat("block ", index_, " has no variable ", name));
}

// Deep blocks have many ancestors and few names are in more than one block: who has the name is
// looked up once, and the walk compares blocks alone.
Var* Block::find_var_recursive(std::string_view name) const {
  if (Var* found = find_var(name)) return found;
  const auto held = program_->holders_.find(name);
  if (held == program_->holders_.end()) return nullptr;
  const std::vector<const Block*>& holders = held->second;
  const bool elsewhere = holders.size() > 1 || holders.front()->index_ != 0;
  std::vector<const Block*> open = {this};
  std::vector<bool> seen(elsewhere ? program_->num_blocks() : 0, false);
  for (size_t at = 0; elsewhere && at < open.size(); ++at) {
    const Block* block = open[at];
    if (std::find(holders.begin(), holders.end(), block) != holders.end()) {
      return block->find_var(name);
    }
    for (const int next : {block->parent_, block->forward_}) {
      if (next < 0) continue;
      const Block& around = program_->block(next);
      if (!seen[static_cast<size_t>(next)]) open.push_back(&around);
      seen[static_cast<size_t>(next)] = true;
    }
  }
  return program_->global_block().find_var(name);
}

Var& Block::create_var(VarSpec spec) {
  if (spec.name.empty()) {
    do {
      spec.name = unique_names().generate("_generated_var");
    } while (find_var(spec.name));
  }
  if (Var* held = find_var(spec.name)) {
    check_agrees(*held, spec);
    if (!held->has_shape() && spec.has_shape) {
      held->set_dtype(spec.dtype);
      held->set_shape(spec.shape);
      held->set_lod_level(spec.lod_level);
    }
    return *held;
  }
  std::string name = spec.name;
  std::unique_ptr<Var> made(new Var(*this, std::move(spec)));
  var_order_.push_back(made.get());
  program_->touch();
  program_->note_holder(name, *this);
  return *vars_.emplace(std::move(name), std::move(made)).first->second;
}

Var& Block::create_parameter(VarSpec spec, ParameterInfo info) {
  if (!spec.has_shape || spec.shape.rank() == 0) {
    throw Error(cat("parameter ", spec.name, " needs a shape with at least one dimension"));
  }
  if (!spec.shape.known()) {
    throw Error(cat("parameter ", spec.name, " has shape ", spec.shape,
                    "; every dimension of a parameter must be known"));
  }
  spec.persistable = true;
  spec.stop_gradient = spec.stop_gradient || !info.trainable;
  // Parameters live in the global block: every sub-block sees them and every step keeps them.
  Var& var = program_->global_block().create_var(std::move(spec));
  // A name given twice is one shared parameter; what was said first about it stays.
  if (!var.is_parameter()) var.edit_parameter() = std::move(info);
  return var;
}

void Block::remove_var(std::string_view name) {
  const auto found = vars_.find(name);
  if (found == vars_.end()) throw Error(cat("block ", index_, " has no variable ", name));
  std::erase(var_order_, found->second.get());
  removed_vars_.push_back(std::move(found->second));
  program_->forget_holder(name, *this);
  vars_.erase(found);
  program_->touch();
}

void Block::rename_var(std::string_view from, const std::string& to) {
  const std::string old(from);  // `from` may be the variable's own name
  if (old == to) return;
  Var& renamed = var(old);
  if (to.empty()) throw Error(cat("variable ", old, " cannot be renamed to an empty name"));
  if (find_var(to)) {
    throw Error(ErrorKind::already_exists, cat("variable ", old, " cannot be renamed to ", to,
                                               ": block ", index_, " has a variable of that name"));
  }
  auto node = vars_.extract(vars_.find(old));
  node.key() = to;
  vars_.insert(std::move(node));
  renamed.spec_.name = to;
  program_->forget_holder(old, *this);
  program_->note_holder(to, *this);
  rename_in_ops(old, to);
  program_->touch();
}

// Ops of this block, and of the blocks inside it that do not have a variable of that name.
void Block::rename_in_ops(const std::string& from, const std::string& to) {
  for (const std::unique_ptr<Op>& op : ops_) {
    op->rename_input(from, to);
    op->rename_output(from, to);
    for (const auto& [name, value] : Attrs(op->attrs())) {
      if (const auto* ref = std::get_if<VarRef>(&value); ref && ref->name == from) {
        op->set_attr(name, VarRef{to});
      } else if (const auto* refs = std::get_if<VarRefs>(&value)) {
        VarRefs changed = *refs;
        std::replace(changed.names.begin(), changed.names.end(), from, to);
        op->set_attr(name, std::move(changed));
      } else if (const auto* list = std::get_if<std::vector<std::string>>(&value);
                 list && name == "op_role_var") {
        std::vector<std::string> changed = *list;
        std::replace(changed.begin(), changed.end(), from, to);
        op->set_attr(name, std::move(changed));
      }
    }
  }
  for (size_t i = 0; i < program_->num_blocks(); ++i) {
    Block& inner = program_->block(static_cast<int>(i));
    if (inner.parent_ == index_ && &inner != this && !inner.find_var(from)) {
      inner.rename_in_ops(from, to);
    }
  }
}

std::vector<Op*> Block::ops() const {
  std::vector<Op*> list;
  list.reserve(ops_.size());
  for (const std::unique_ptr<Op>& op : ops_) list.push_back(op.get());
  return list;
}

}  // namespace trireme
