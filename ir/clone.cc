// clone(for_test) and the inference copy: which ops, variables and blocks of a program remain.
#include <algorithm>
#include <set>

#include "ir/copy.h"
#include "ir/schema.h"

namespace trireme {
namespace {

// The op that fills the loss's gradient marks a program that append_backward has run on.
bool has_loss_gradient(const Program& program) {
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (const Op* op : program.block(static_cast<int>(i)).ops()) {
      if (op->role() == (op_role::kBackward | op_role::kLoss)) return true;
    }
  }
  return false;
}

// Block 0, blocks that have ops, and blocks that ops of those refer to.
std::vector<int> blocks_in_use(const Program& program) {
  std::set<int> used = {0};
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    const Block& block = program.block(static_cast<int>(i));
    if (block.size() > 0) used.insert(block.index());
    for (const Op* op : block.ops()) {
      for (const auto& [name, value] : op->attrs()) {
        for (const int index : blocks_in(value)) used.insert(index);
      }
    }
  }
  return {used.begin(), used.end()};
}

constexpr int kDropped = op_role::kOptimize | op_role::kBackward | op_role::kLrSched;

void add_names(const Block& block, std::set<std::string>& names) {
  for (const Op* op : block.ops()) {
    for (const std::string& name : op->input_names()) names.insert(name);
    for (const std::string& name : op->output_names()) names.insert(name);
    if (const Block* inner = op->sub_block()) add_names(*inner, names);
  }
}

// The op of a branch that has lost its updates names no longer what only these read and wrote.
void trim_branch(Op& op, const Border& border) {
  std::set<std::string> names;
  add_names(*op.sub_block(), names);
  const auto kept = [&](std::vector<std::string> listed) {
    std::erase_if(listed, [&](const std::string& name) { return !names.contains(name); });
    return listed;
  };
  for (const Border::Input& input : border.inputs) op.set_input(input.slot, kept(input.outside));
  op.set_output(border.outs, kept(op.output(border.outs)));
}

bool has_updates(const Block& block) {
  const std::vector<Op*> ops = block.ops();
  return std::ranges::any_of(ops, [](const Op* op) {
    return op->has_role(kDropped) || (op->sub_block() && has_updates(*op->sub_block()));
  });
}

// Whether any branch had some.
bool trim_branches(const Program& program, const Program& copy) {
  bool any = false;
  for (size_t i = 0; i < copy.num_blocks(); ++i) {
    for (Op* op : copy.block(static_cast<int>(i)).ops()) {
      const OpSchema* row = op_table().find(op->type());
      if (!row || !row->trait().once || !row->border_rule()) continue;
      if (!has_updates(program.block(op->sub_block()->index()))) continue;
      trim_branch(*op, row->border_rule()(*op));
      any = true;
    }
  }
  return any;
}

std::shared_ptr<Program> forward_part(const Program& program) {
  Selection forward = select_all(program);
  for (std::vector<const Op*>& ops : forward.ops) {
    std::erase_if(ops, [](const Op* op) { return op->has_role(kDropped); });
  }
  forward.vars = named_vars(program, forward.ops);
  std::shared_ptr<Program> copy = copy_selected(program, forward);
  if (trim_branches(program, *copy)) {
    Selection rest = select_all(*copy);
    rest.vars = named_vars(*copy, rest.ops);
    copy = copy_selected(*copy, rest);
  }
  copy->keep_blocks(blocks_in_use(*copy));
  return copy;
}

}  // namespace

std::shared_ptr<Program> clone(const Program& program, bool for_test) {
  if (!for_test) return copy_selected(program, select_all(program));
  std::shared_ptr<Program> copy = has_loss_gradient(program)
                                      ? forward_part(program)
                                      : copy_selected(program, select_all(program));
  // A test program is a new program: it takes nothing of the state of the one under construction.
  const std::shared_ptr<Program> fresh = Program::create();
  copy->set_seed(fresh->seed());
  copy->set_current(0);
  copy->role = fresh->role;
  copy->role_vars.clear();
  copy->backward_count = 0;
  set_is_test(*copy);
  return copy;
}

std::shared_ptr<Program> inference_copy(const Program& program, bool prune_read_ops) {
  Selection selection = select_all(program);
  if (prune_read_ops) {
    std::vector<const Op*>& ops = selection.ops.front();
    const auto read = std::ranges::find_if(
        ops, [](const Op* op) { return traits_of(*op).marker == Marker::read; });
    if (read != ops.end()) ops.erase(ops.begin(), read + 1);
    std::erase_if(selection.vars.front(),
                  [](const Var* var) { return var->type() == VarType::reader; });
  }
  std::shared_ptr<Program> copy = copy_selected(program, selection);
  set_is_test(*copy);
  return copy;
}

}  // namespace trireme
