// Copying of programs, whole or in parts.
#include "ir/copy.h"

#include <set>

#include "ir/schema.h"

namespace trireme {
namespace {

std::vector<std::string> names_of(const Op& op) {
  std::vector<std::string> names = op.input_names();
  for (const std::string& name : op.output_names()) names.push_back(name);
  for (const auto& [key, value] : op.attrs()) {
    if (const auto* ref = std::get_if<VarRef>(&value)) names.push_back(ref->name);
    if (const auto* refs = std::get_if<VarRefs>(&value)) {
      names.insert(names.end(), refs->names.begin(), refs->names.end());
    }
  }
  return names;
}

void copy_var(const Var& var, Block& to) {
  Var& copy = to.create_var(var.spec());
  if (var.is_parameter()) copy.edit_parameter() = *var.parameter();
  copy.error_clip = var.error_clip;
  copy.unknown_fields = var.unknown_fields;
  copy.reader_slots = var.reader_slots;
  copy.reader_lod_levels = var.reader_lod_levels;
}

}  // namespace

Selection select_all(const Program& program) {
  Selection all;
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    const Block& block = program.block(static_cast<int>(i));
    const std::vector<Op*> ops = block.ops();
    all.ops.emplace_back(ops.begin(), ops.end());
    all.vars.emplace_back(block.vars().begin(), block.vars().end());
  }
  return all;
}

std::vector<std::vector<const Var*>> named_vars(const Program& program,
                                                const std::vector<std::vector<const Op*>>& ops) {
  std::set<const Var*> named;
  for (const std::vector<const Op*>& list : ops) {
    for (const Op* op : list) {
      for (const std::string& name : names_of(*op)) {
        named.insert(op->block().find_var_recursive(name));
      }
    }
  }
  std::vector<std::vector<const Var*>> vars(program.num_blocks());
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (const Var* var : program.block(static_cast<int>(i)).vars()) {
      if (named.count(var)) vars[i].push_back(var);
    }
  }
  return vars;
}

std::vector<int> blocks_in(const Attribute& value) {
  if (const auto* ref = std::get_if<BlockRef>(&value)) return {ref->index};
  if (const auto* refs = std::get_if<BlockRefs>(&value)) return refs->indices;
  return {};
}

std::shared_ptr<Program> copy_selected(const Program& program, const Selection& selection) {
  std::shared_ptr<Program> copy = Program::create();
  for (size_t i = 1; i < program.num_blocks(); ++i) copy->create_block(0);
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    const Block& from = program.block(static_cast<int>(i));
    Block& to = copy->block(static_cast<int>(i));
    to.set_parent_index(from.parent_index());
    to.set_forward_index(from.forward_index());
    to.unknown_fields = from.unknown_fields;
    for (const Var* var : selection.vars[i]) copy_var(*var, to);
    for (const Op* op : selection.ops[i]) {
      Op& copied = to.insert_raw_op(to.size(), op->spec(), op->line());
      copied.is_target = op->is_target;
      copied.unknown_fields = op->unknown_fields;
      copied.former_names = op->former_names;
    }
  }
  copy->set_current(program.current_index());
  copy->set_seed(program.seed());
  copy->role = program.role;
  copy->role_vars = program.role_vars;
  copy->name_scope = program.name_scope;
  copy->device = program.device;
  copy->backward_count = program.backward_count;
  copy->random_ops = program.random_ops;
  copy->distributed = program.distributed;
  copy->memory_optimized = program.memory_optimized;
  copy->for_inference = program.for_inference;
  if (copy->global_block().find_var(program.scheduled_rate)) {
    copy->scheduled_rate = program.scheduled_rate;
  }
  copy->desc_version = program.desc_version;
  copy->op_versions = program.op_versions;
  copy->unknown_fields = program.unknown_fields;
  return copy;
}

void set_is_test(Program& program) {
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (Op* op : program.block(static_cast<int>(i)).ops()) {
      if (const Attribute* value = op->find_attr("is_test")) {
        op->set_attr("is_test", convert(Attribute(true), type_of(*value), "is_test"));
      }
      for (const std::string& slot : traits_of(*op).training_outputs) op->remove_output(slot);
    }
  }
}

}  // namespace trireme
