// Sorts a program's ops by role, and follows what updates need.
#include "transpiler/updates.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "core/warning.h"
#include "transpiler/report.h"

namespace trireme {
namespace {

bool is_optimizer_op(const Op& op) {
  return !op.input("Param").empty() && !op.output("ParamOut").empty();
}

// Gradients come first: an op belongs to the update as soon as it reads what outlives a step
// (parameters, rates, states) or what such an op has written.
class UpdateFinder {
 public:
  explicit UpdateFinder(const Program& program) : block_(program.global_block()) {}

  UpdateOps find() {
    for (const Op* op : block_.ops()) {
      if (op->has_role(op_role::kLrSched)) {
        add_schedule(*op);
      } else if (op->has_role(op_role::kOptimize)) {
        if (belongs_to_update(*op)) {
          add_update(*op);
        } else {
          found_.clips.push_back(op);
        }
      }
    }
    for (const Update& update : found_.updates) {
      if (update.optimizer) continue;
      found_.followers.insert(found_.followers.end(), update.ops.begin(), update.ops.end());
    }
    std::erase_if(found_.updates, [](const Update& update) { return update.optimizer == nullptr; });
    std::ranges::sort(found_.followers, {}, &Op::index);
    refuse_updates_in_blocks();
    if (found_.updates.empty()) {
      warn(
          "DistributeTranspiler: the program has no optimizer ops, so servers will update nothing: "
          "call minimize before transpile");
    }
    return std::move(found_);
  }

 private:
  // Servers update once in every step, whatever a branch of the trainer decides.
  void refuse_updates_in_blocks() const {
    const Program& program = block_.program();
    for (size_t b = 1; b < program.num_blocks(); ++b) {
      for (const Op* op : program.block(static_cast<int>(b)).ops()) {
        if (!is_optimizer_op(*op)) continue;
        throw transpile_error(cat(op->type(), " of ", op->input("Param").front(),
                                  " stands in a branch or loop; servers update in every step"),
                              ErrorKind::unimplemented)
            .at(op->line())
            .fix("call minimize outside of the branch");
      }
    }
  }

  void add_schedule(const Op& op) {
    found_.schedule.push_back(&op);
    for (const std::string& name : op.output_names()) updated_.insert(name);
    const auto outputs = op.output_names();
    if (op.type() == "increment" && std::ranges::find(outputs, kLrCounter) != outputs.end()) {
      found_.step_counter = &op;
    }
  }

  bool belongs_to_update(const Op& op) {
    const auto kept = [&](const std::string& name) {
      const Var* var = block_.find_var_recursive(name);
      return updated_.contains(name) || (var && var->persistable());
    };
    const std::vector<std::string> reads = op.input_names(), writes = op.output_names();
    const bool belongs =
        std::ranges::any_of(reads, kept) || std::ranges::any_of(writes, [&](const auto& name) {
          const Var* var = block_.find_var_recursive(name);
          return var && var->persistable();
        });
    if (belongs) updated_.insert(writes.begin(), writes.end());
    return belongs;
  }

  void add_update(const Op& op) {
    if (op.type().starts_with("dgc")) {
      throw transpile_error(cat(op.type(), " works with collective training only"),
                            ErrorKind::unimplemented)
          .at(op.line())
          .fix("use MomentumOptimizer with parameter servers");
    }
    std::vector<std::string> vars = role_vars(op);
    if (vars.size() < 2 && is_optimizer_op(op)) {
      vars = {op.input("Param").front(), op.input("Grad").empty() ? "" : op.input("Grad").front()};
    }
    if (vars.size() < 2) {
      throw Error(ErrorKind::unimplemented,
                  cat("this optimize-role op names no parameter (op_role_var), so no server can be "
                      "chosen for it"))
          .in(op.type())
          .at(op.line());
    }
    const Var* param = block_.find_var(vars[0]);
    if (param && param->is_parameter() && !param->parameter()->trainable) return;
    Update& update = update_of(vars[0], vars[1]);
    update.ops.push_back(&op);
    if (is_optimizer_op(op)) update.optimizer = &op;
  }

  // The parameter's open update. One that has its optimizer op is open for what names its
  // gradients only: a second loss starts a second update.
  Update& update_of(const std::string& param, const std::string& grad) {
    const auto open = open_.find(param);
    if (open != open_.end()) {
      Update& update = found_.updates[open->second];
      if (!update.optimizer || grads_[open->second].contains(grad)) {
        grads_[open->second].insert(grad);
        return update;
      }
    }
    open_[param] = found_.updates.size();
    grads_.push_back({grad});
    found_.updates.push_back({.param = param, .grad = grad, .ops = {}});
    return found_.updates.back();
  }

  const Block& block_;
  UpdateOps found_;
  std::set<std::string> updated_;
  std::map<std::string, size_t> open_;
  std::vector<std::set<std::string>> grads_;  // by update
};

}  // namespace

std::vector<std::string> role_vars(const Op& op) {
  return op.attr_or<std::vector<std::string>>("op_role_var", {});
}

UpdateOps find_updates(const Program& program) { return UpdateFinder(program).find(); }

void refuse_other_writers(const Program& program, const UpdateOps& ops) {
  std::set<std::string> params;
  std::set<const Op*> moves(ops.schedule.begin(), ops.schedule.end());
  for (const Update& update : ops.updates) {
    params.insert(update.param);
    moves.insert(update.ops.begin(), update.ops.end());
  }
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    for (const Op* op : program.block(static_cast<int>(b)).ops()) {
      if (moves.contains(op)) continue;
      for (const auto& [slot, names] : op->outputs()) {
        if (slot == "W_Out") continue;  // hierarchical_sigmoid's table, as it came in
        for (const std::string& name : names) {
          if (!params.contains(name)) continue;
          throw transpile_error(cat(op->type(), " writes parameter ", name,
                                    " on the trainer, but servers keep and update it"),
                                ErrorKind::unimplemented)
              .at(op->line())
              .fix("leave the parameter to its optimizer, or train without parameter servers");
        }
      }
    }
  }
}

}  // namespace trireme
