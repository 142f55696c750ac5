// clone(for_test) and the inference copy: which ops, variables and blocks of a program remain.
#include <algorithm>
#include <set>

#include "ir/copy.h"

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

std::shared_ptr<Program> forward_part(const Program& program) {
  constexpr int kDropped = op_role::kOptimize | op_role::kBackward | op_role::kLrSched;
  Selection forward = select_all(program);
  for (std::vector<const Op*>& ops : forward.ops) {
    std::erase_if(ops, [](const Op* op) { return op->has_role(kDropped); });
  }
  forward.vars = named_vars(program, forward.ops);
  std::shared_ptr<Program> copy = copy_selected(program, forward);
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
    const auto read = std::ranges::find_if(ops, [](const Op* op) { return op->type() == "read"; });
    if (read != ops.end()) ops.erase(ops.begin(), read + 1);
    std::erase_if(selection.vars.front(),
                  [](const Var* var) { return var->type() == VarType::reader; });
  }
  std::shared_ptr<Program> copy = copy_selected(program, selection);
  set_is_test(*copy);
  return copy;
}

}  // namespace trireme
