// Inserts all-reduce ops behind gradients, or averages of parameters behind updates.
#include "transpiler/collective.h"

#include <algorithm>
#include <map>

#include "core/text.h"
#include "transpiler/edit.h"
#include "transpiler/report.h"
#include "transpiler/updates.h"

namespace trireme {
namespace {

using Strings = std::vector<std::string>;

constexpr int kLossGradient = op_role::kBackward | op_role::kLoss;

bool is_update(const Op& op) {
  return !op.input("Param").empty() && !op.input("Grad").empty() &&
         !op.input("LearningRate").empty();
}

std::vector<Var*> shared_parameters(const Block& block) {
  std::vector<Var*> params;
  for (Var* var : block.vars()) {
    if (var->is_parameter() && !var->parameter()->is_distributed) params.push_back(var);
  }
  return params;
}

OpSpec in_place(const std::string& type, const std::string& name, Attrs attrs = {}) {
  return {.type = type,
          .inputs = {{"X", {name}}},
          .outputs = {{"Out", {name}}},
          .attrs = std::move(attrs)};
}

class CollectiveEdit {
 public:
  CollectiveEdit(Program& main, Program& startup, int rings)
      : main_(main.global_block()), startup_(startup.global_block()), rings_(rings) {}

  void init_rings(const Ranks& ranks) {
    Strings others = ranks.endpoints;
    std::erase(others, ranks.current_endpoint);
    for (int ring = 0; ring < rings_; ++ring) {
      const std::string id = cat("nccl_id_", ring);
      startup_.create_var(
          {.name = id, .type = VarType::raw, .persistable = true, .has_shape = false});
      append_filled(startup_,
                    {.type = "c_gen_nccl_id",
                     .outputs = {{"Out", {id}}},
                     .attrs = {{"rank", int32_t{ranks.rank}},
                               {"endpoint", ranks.current_endpoint},
                               {"other_endpoints", others}}},
                    op_role::kForward);
      append_filled(startup_,
                    {.type = "c_comm_init",
                     .inputs = {{"X", {id}}},
                     .attrs = {{"nranks", int32_t{ranks.count()}},
                               {"rank", int32_t{ranks.rank}},
                               {"ring_id", int32_t{ring}}}},
                    op_role::kForward);
    }
  }

  // Every rank starts from rank 0's parameters.
  void broadcast() {
    int ring = -1;
    std::string last;
    for (const Var* param : shared_parameters(startup_)) {
      ring = (ring + 1) % rings_;
      last = param->name();
      append_filled(
          startup_,
          in_place("c_broadcast", last, {{"ring_id", int32_t{ring}}, {"root", int32_t{0}}}),
          op_role::kForward);
    }
    if (last.empty()) {
      throw transpile_error("the startup program has no parameter to broadcast",
                            ErrorKind::precondition)
          .fix("pass the startup program that goes with the main program");
    }
    append_syncs(startup_, startup_.size(), last, op_role::kForward);
  }

  // The loss gradient is divided by the number of ranks, so that sums of gradients are averages.
  void scale_loss_gradient(int ranks) {
    for (size_t i = main_.size(); i-- > 0;) {
      const Op& op = main_.op(i);
      if (op.role() != kLossGradient) continue;
      const std::string grad = op.output_names().front();
      insert_filled(main_, i + 1,
                    in_place("scale", grad, {{"scale", 1.0f / static_cast<float>(ranks)}}),
                    op_role::kBackward, op.line());
    }
  }

  void reduce_gradients() {
    int ring = -1;
    std::string grad;
    for (size_t i = main_.size(); i-- > 0;) {
      const Op& op = main_.op(i);
      const Strings vars = role_vars(op);
      if (!op.has_role(op_role::kBackward) || vars.empty()) continue;
      const SourceLine line = op.line();
      size_t at = i + 1;
      for (size_t v = 0; v + 1 < vars.size(); v += 2) {
        const Var* param = main_.find_var(vars[v]);
        if (param && param->is_parameter() && param->parameter()->is_distributed) continue;
        grad = vars[v + 1];
        if (at == i + 1) {
          insert_filled(main_, at++, in_place("c_sync_calc_stream", grad), op_role::kBackward,
                        line);
        }
        ring = (ring + 1) % rings_;
        insert_filled(main_, at++, in_place("c_allreduce_sum", grad, {{"ring_id", int32_t{ring}}}),
                      op_role::kBackward, line);
      }
    }
    if (grad.empty()) {
      throw minimize_first("the program has no gradients of parameters");
    }
    for (size_t i = 0; i < main_.size(); ++i) {
      if (!main_.op(i).has_role(op_role::kOptimize)) continue;
      append_syncs(main_, i, grad, op_role::kBackward);
      return;
    }
  }

  // ---- local SGD

  static std::string snapshot(const std::string& name) { return name + "@SNAPSHOT"; }

  void add_snapshots() {
    for (const Var* param : shared_parameters(startup_)) {
      const std::string name = snapshot(param->name());
      VarSpec spec{.name = name,
                   .dtype = param->dtype(),
                   .shape = param->shape(),
                   .persistable = true,
                   .stop_gradient = true};
      startup_.create_var(spec);
      append_filled(
          startup_,
          {.type = "assign", .inputs = {{"X", {param->name()}}}, .outputs = {{"Out", {name}}}},
          op_role::kForward);
      if (main_.find_var(param->name()) && !main_.find_var(name)) main_.create_var(spec);
    }
  }

  // w becomes snapshot - w, is summed over ranks and divided, and taken from the snapshot again.
  void average_parameters(int ranks) {
    int ring = -1;
    std::vector<std::string> updated;
    for (size_t i = main_.size(); i-- > 0;) {
      const Op& op = main_.op(i);
      if (!is_update(op)) continue;
      const std::string param = op.input("Param").front();
      const Var* var = main_.find_var(param);
      if (var && var->is_parameter() && var->parameter()->is_distributed) continue;
      const SourceLine line = op.line();
      ring = (ring + 1) % rings_;
      insert_filled(main_, i + 1, difference(param), op_role::kOptimize, line);
      insert_filled(main_, i + 2, in_place("c_sync_calc_stream", param), op_role::kOptimize, line);
      insert_filled(main_, i + 3, in_place("c_allreduce_sum", param, {{"ring_id", int32_t{ring}}}),
                    op_role::kOptimize, line);
      updated.push_back(param);
    }
    if (updated.empty()) {
      throw minimize_first("the program has no optimizer ops");
    }
    append_syncs(main_, main_.size(), updated.front(), op_role::kOptimize);
    std::ranges::reverse(updated);
    for (const std::string& param : updated) {
      append_filled(main_, in_place("scale", param, {{"scale", 1.0f / static_cast<float>(ranks)}}),
                    op_role::kOptimize);
      append_filled(main_, difference(param), op_role::kOptimize);
      append_filled(
          main_,
          {.type = "assign", .inputs = {{"X", {param}}}, .outputs = {{"Out", {snapshot(param)}}}},
          op_role::kOptimize);
    }
  }

 private:
  static OpSpec difference(const std::string& param) {
    return {.type = "elementwise_sub",
            .inputs = {{"X", {snapshot(param)}}, {"Y", {param}}},
            .outputs = {{"Out", {param}}}};
  }

  void append_syncs(Block& block, size_t at, const std::string& name, int role) {
    for (int ring = 0; ring < rings_; ++ring) {
      insert_filled(block, at++, in_place("c_sync_comm_stream", name, {{"ring_id", int32_t{ring}}}),
                    role);
    }
  }

  Block& main_;
  Block& startup_;
  int rings_;
};

}  // namespace

void make_nccl2(Program& startup, const DistributeTranspilerConfig& config, const Ranks& ranks) {
  Block& block = startup.global_block();
  const auto add_id = [&](const std::string& name) {
    block.create_var({.name = name, .type = VarType::raw, .persistable = true, .has_shape = false});
  };
  add_id("NCCLID");
  for (int i = 1; i < config.nccl_comm_num; ++i) add_id(cat("NCCLID_", i));
  if (config.use_hierarchical_allreduce) {
    for (int i = 0; i < config.nccl_comm_num; ++i) {
      add_id(cat("Hierarchical_inter_NCCLID_", i));
      add_id(cat("Hierarchical_exter_NCCLID_", i));
    }
  }
  append_filled(block,
                {.type = "gen_nccl_id",
                 .outputs = {{"NCCLID", {"NCCLID"}}},
                 .attrs = {{"trainers", ranks.endpoints},
                           {"trainer_id", int32_t{ranks.rank}},
                           {"nccl_comm_num", int32_t{config.nccl_comm_num}},
                           {"use_hierarchical_allreduce", config.use_hierarchical_allreduce},
                           {"hierarchical_allreduce_inter_nranks",
                            int32_t{config.hierarchical_allreduce_inter_nranks}}}},
                op_role::kForward);
}

void make_grad_allreduce(Program& main, Program& startup, int rings, const Ranks& ranks) {
  CollectiveEdit edit(main, startup, rings);
  edit.init_rings(ranks);
  edit.broadcast();
  edit.scale_loss_gradient(ranks.count());
  edit.reduce_gradients();
}

void make_local_sgd(Program& main, Program& startup, int rings, const Ranks& ranks) {
  CollectiveEdit edit(main, startup, rings);
  edit.init_rings(ranks);
  edit.broadcast();
  edit.add_snapshots();
  edit.average_parameters(ranks.count());
}

void make_multi_thread(Program& main, Program& startup, int rings, int ranks) {
  append_filled(startup.global_block(),
                {.type = "c_comm_init_all", .attrs = {{"ring_id", int32_t{0}}}}, op_role::kForward);
  CollectiveEdit edit(main, startup, rings);
  edit.scale_loss_gradient(ranks);
  edit.reduce_gradients();
}

}  // namespace trireme
