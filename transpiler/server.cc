// Builds the program of one endpoint: its blocks, their updates, and who asks for them.
#include "transpiler/server.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "core/warning.h"
#include "ir/copy.h"
#include "transpiler/edit.h"

namespace trireme {
namespace {

using Strings = std::vector<std::string>;
using Rename = std::map<std::string, std::string>;

OpSpec renamed(const Op& op, const Rename& names) {
  OpSpec spec = op.spec();
  const auto apply = [&](Strings& list) {
    for (std::string& name : list) {
      if (const auto found = names.find(name); found != names.end()) name = found->second;
    }
  };
  for (auto& [slot, list] : spec.inputs) apply(list);
  for (auto& [slot, list] : spec.outputs) apply(list);
  if (const auto vars = spec.attrs.find("op_role_var"); vars != spec.attrs.end()) {
    apply(std::get<Strings>(vars->second));
  }
  spec.attrs.erase("op_callstack");
  return spec;
}

class ServerSide {
 public:
  ServerSide(const Placement& placement, const std::string& endpoint)
      : placement_(placement),
        endpoint_(endpoint),
        original_(placement.main->global_block()),
        program_(Program::create()),
        block_(program_->global_block()) {
    program_->set_seed(placement.main->seed());
    const auto& list = placement.endpoints;
    number_ = static_cast<size_t>(std::ranges::find(list, endpoint) - list.begin());
  }

  std::shared_ptr<Program> run() {
    add_params_and_grads();
    for (size_t j = 0; j < placement_.clips.joins.size(); ++j) add_numbers(static_cast<int>(j));
    const size_t first_round = optimize_blocks_.indices.size();
    if (!placement_.ops.schedule.empty()) add_schedule();
    for (const ClipJoin& join : placement_.clips.joins) add_decision(join);
    parent_ = last_block();
    for (const Update& update : placement_.ops.updates) add_update(update);
    if (grad_blocks_.empty()) {
      warn_once(cat("parameter server ", endpoint_,
                    " keeps no parameter: there are fewer blocks than ", "servers"));
      optimize_blocks_.indices.push_back(program_->create_block(parent_).index());
    }
    if (!placement_.clips.joins.empty()) {
      rounds_ = {static_cast<int32_t>(first_round),
                 static_cast<int32_t>(optimize_blocks_.indices.size() - first_round)};
    }
    program_->set_current(0);
    add_serve_op();
    return program_;
  }

 private:
  int last_block() const { return static_cast<int>(program_->num_blocks()) - 1; }

  Block& add_block(int parent) {
    Block& block = program_->create_block(parent);
    optimize_blocks_.indices.push_back(block.index());
    return block;
  }

  const PlacedParam* placed(const std::string& name) const {
    for (const PlacedParam& param : placement_.params) {
      if (param.name == name) return &param;
    }
    return nullptr;
  }

  void add_params_and_grads() {
    for (const size_t i : placement_.send_order) {
      const PlacedParam& param = placement_.params[i];
      for (const Slice& slice : param.slices) {
        if (slice.endpoint != endpoint_) continue;
        block_.create_var(
            {.name = slice.name, .dtype = param.dtype, .shape = slice.shape, .persistable = true});
      }
    }
    for (const size_t i : placement_.send_order) {
      const PlacedParam& param = placement_.params[i];
      for (size_t s = 0; s < param.slices.size(); ++s) {
        if (param.slices[s].endpoint != endpoint_) continue;
        for (const size_t u : param.updates) {
          add_grad(param, placement_.sent_grad(placement_.ops.updates[u]), s);
        }
      }
    }
  }

  void add_grad(const PlacedParam& param, const std::string& grad, size_t slice) {
    const VarType type = original_.var(grad).type();
    const std::string merged = param.grad_name(grad, slice);
    add_received(merged, type, param.dtype, param.slices[slice].shape, placement_.by_trainer());
    if (type == VarType::selected_rows) {
      sparse_grads_.push_back(cat(merged, ":", param.slices[slice].name));
    }
  }

  // The merged gradient, and where trainers are told apart one more for each of them.
  void add_received(const std::string& merged, VarType type, DType dtype, const Shape& shape,
                    bool by_trainer) {
    VarSpec spec{.name = merged, .type = type, .dtype = dtype, .shape = shape, .persistable = true};
    block_.create_var(spec);
    if (!by_trainer) {
      received_.push_back(merged);
      return;
    }
    spec.persistable = false;
    for (int t = 0; t < placement_.trainers; ++t) {
      spec.name = of_trainer(merged, t);
      block_.create_var(spec);
      received_.push_back(spec.name);
    }
  }

  // ---- the learning rate

  void add_schedule() {
    Block& block = add_block(0);
    schedule_block_ = block.index();
    for (const Op* op : placement_.ops.schedule) {
      if (op == placement_.ops.step_counter && placement_.async_counter()) {
        add_counter_sum(block, *op);
      } else {
        copy_op(*op, block);
      }
    }
  }

  // Steps of all trainers together.
  void add_counter_sum(Block& block, const Op& increment) {
    const Var& counter = original_.var(kLrCounter);
    Strings counters;
    for (int t = 0; t < placement_.trainers; ++t) {
      counters.push_back(of_trainer(std::string(kLrCounter), t));
      clone_var(block_, counter, counters.back());
    }
    clone_var(block_, counter);
    append_filled(block,
                  {.type = "sum",
                   .inputs = {{"X", counters}},
                   .outputs = {{"Out", {std::string(kLrCounter)}}}},
                  increment.role(), increment.line());
  }

  // An op as it is, its variables in the global block, its sub-blocks behind those that exist.
  void copy_op(const Op& op, Block& to) {
    for (const auto& names : {op.input_names(), op.output_names()}) {
      for (const std::string& name : names) {
        const Var* var = op.block().find_var_recursive(name);
        if (var && !to.find_var_recursive(name)) clone_var(block_, *var);
      }
    }
    OpSpec spec = renamed(op, {});
    for (auto& [key, value] : spec.attrs) {
      if (const auto* ref = std::get_if<BlockRef>(&value)) {
        value = BlockRef{copy_block(placement_.main->block(ref->index), to)};
      }
    }
    to.insert_raw_op(to.size(), std::move(spec), op.line());
  }

  int copy_block(const Block& from, Block& parent) {
    Block& to = program_->create_block(parent.index());
    for (const Var* var : from.vars()) clone_var(to, *var);
    for (const Op* op : from.ops()) copy_op(*op, to);
    return to.index();
  }

  // ---- clips of several gradients together

  // First round: averages, the numbers of this server's gradients, their sum.
  void add_numbers(int j) {
    Strings numbers;
    for (const Update& update : placement_.ops.updates) {
      const ClippedGrad* clipped = placement_.clips.find(update.grad);
      if (!clipped || clipped->join != j) continue;
      for_each_slice(update, [&](const PlacedParam& param, size_t s) {
        const Slice& slice = param.slices[s];
        const std::string merged = param.grad_name(clipped->raw, s);
        std::string number = clipped->number;
        if (slices_at(param, endpoint_) > 1) number += cat(".block", slice.block_id);
        clone_var(block_, original_.var(clipped->number), number);
        Block& block = add_block(0);
        add_merge(block, merged, update.optimizer->line());
        add_ops(block, clipped->before, param, slice,
                {{clipped->raw, merged}, {clipped->number, number}});
        numbers.push_back(number);
      });
    }
    const std::string& total = placement_.clips.joins[static_cast<size_t>(j)].total;
    add_received(total, VarType::lod_tensor, original_.var(total).dtype(),
                 original_.var(total).shape(), false);
    if (numbers.empty()) return;
    clone_var(block_, original_.var(total), part_name(total, number_)).set_persistable(true);
    append_filled(add_block(last_block()),  // not beside the blocks whose numbers it reads
                  {.type = "sum",
                   .inputs = {{"X", numbers}},
                   .outputs = {{"Out", {part_name(total, number_)}}}},
                  op_role::kOptimize);
  }

  void add_decision(const ClipJoin& join) {
    Block& block = add_block(std::max(schedule_block_, 0));
    for (const Op* op : join.decide) copy_op(*op, block);
  }

  // ---- updates

  template <class Do>
  void for_each_slice(const Update& update, const Do& act) const {
    const PlacedParam* param = placed(update.param);
    for (size_t s = 0; param && s < param->slices.size(); ++s) {
      if (param->slices[s].endpoint == endpoint_) act(*param, s);
    }
  }

  void add_update(const Update& update) {
    for_each_slice(update,
                   [&](const PlacedParam& param, size_t s) { add_update(param, update, s); });
  }

  void add_update(const PlacedParam& param, const Update& update, size_t s) {
    const Slice& slice = param.slices[s];
    // A second update of one slice follows the first: only siblings run side by side.
    const auto before = last_update_.find(slice.name);
    Block& block = add_block(before == last_update_.end() ? parent_ : before->second);
    last_update_[slice.name] = block.index();
    const ClippedGrad* clipped = placement_.clips.find(update.grad);
    const bool averaged = clipped && clipped->join >= 0;  // in the first round
    const std::string& sent = placement_.sent_grad(update);
    const std::string merged = param.grad_name(sent, s);
    grad_blocks_.push_back(cat(merged, ":", block.index()));
    const SourceLine line = update.optimizer->line();
    if (placement_.by_trainer() && !averaged) add_merge(block, merged, line);

    Rename names{{param.name, slice.name}, {sent, merged}};
    for (const PlacedState& state : states_of(placement_, param, update, slice)) {
      names[state.origin->name()] = state.name;
      clone_var(block_, *state.origin, state.name, &state.shape);
    }
    if (placement_.config.enable_dc_asgd) add_compensation(block, param, slice, merged, line);
    if (clipped) add_ops(block, averaged ? clipped->after : clipped->before, param, slice, names);
    add_ops(block, update.ops, param, slice, names);
  }

  void add_ops(Block& block, const std::vector<const Op*>& ops, const PlacedParam& param,
               const Slice& slice, const Rename& names) {
    for (const Op* op : ops) {
      if (op->sub_block()) {
        throw Error(ErrorKind::unimplemented, "an update with a sub-block cannot move to a server")
            .in(op->type())
            .at(op->line());
      }
      add_temporaries(block, param, slice, *op, names);
      block.insert_raw_op(block.size(), renamed(*op, names), op->line());
    }
  }

  // Temporaries of an update are its block's own; those of the schedule are in the global block.
  void add_temporaries(Block& block, const PlacedParam& param, const Slice& slice, const Op& op,
                       const Rename& names) {
    for (const auto& list : {op.input_names(), op.output_names()}) {
      for (const std::string& name : list) {
        const Var* var = original_.find_var(name);
        if (!var || names.contains(name) || block.find_var_recursive(name)) continue;
        const bool sliced = param.is_split() && var->shape() == param.shape;
        clone_var(block, *var, name, sliced ? &slice.shape : nullptr);
      }
    }
  }

  void add_merge(Block& block, const std::string& merged, const SourceLine& line) {
    Strings parts;
    for (int t = 0; t < placement_.trainers; ++t) parts.push_back(of_trainer(merged, t));
    append_filled(block,
                  {.type = "sum",
                   .inputs = {{"X", parts}},
                   .outputs = {{"Out", {merged}}},
                   .attrs = {{"use_mkldnn", false}}},
                  op_role::kOptimize, line);
    append_filled(block,
                  {.type = "scale",
                   .inputs = {{"X", {merged}}},
                   .outputs = {{"Out", {merged}}},
                   .attrs = {{"scale", 1.0f / static_cast<float>(placement_.trainers)}}},
                  op_role::kOptimize, line);
  }

  // g + g * g * (w - w as this trainer had it when it computed g).
  void add_compensation(Block& block, const PlacedParam& param, const Slice& slice,
                        const std::string& grad, const SourceLine& line) {
    if (param.sparse_grad) {
      throw Error(ErrorKind::unimplemented,
                  cat("enable_dc_asgd needs dense gradients, and ", grad, " is SelectedRows"))
          .in("DistributeTranspilerConfig")
          .fix("build the embedding with is_sparse=False, or set enable_dc_asgd = False");
    }
    Strings backups;
    for (int t = 0; t < placement_.trainers; ++t) {
      backups.push_back(backup_name(slice.name, t));
      block_.create_var({.name = backups.back(),
                         .dtype = param.dtype,
                         .shape = slice.shape,
                         .persistable = true});
    }
    const std::string id = "@TRAINER_ID@";
    if (!block_.find_var(id)) {
      block_.create_var({.name = id, .dtype = DType::int64, .shape = {1}, .persistable = true});
    }
    const auto temporary = [&](const char* suffix) {
      return block
          .create_var({.name = slice.name + suffix, .dtype = param.dtype, .shape = slice.shape})
          .name();
    };
    const auto append = [&](const char* type, Slots inputs, const std::string& out) {
      append_filled(block, {.type = type, .inputs = std::move(inputs), .outputs = {{"Out", {out}}}},
                    op_role::kOptimize, line);
    };
    const std::string local = temporary(".local_bak"), moved = temporary(".moved"),
                      once = temporary(".moved_g"), twice = temporary(".moved_g_g");
    append("ref_by_trainer_id", {{"X", backups}, {"TrainerId", {id}}}, local);
    append("elementwise_sub", {{"X", {slice.name}}, {"Y", {local}}}, moved);
    append("elementwise_mul", {{"X", {moved}}, {"Y", {grad}}}, once);
    append("elementwise_mul", {{"X", {once}}, {"Y", {grad}}}, twice);
    append("elementwise_add", {{"X", {grad}}, {"Y", {twice}}}, grad);
  }

  void add_serve_op() {
    append_filled(
        block_,
        {.type = "listen_and_serv",
         .inputs = {{"X", received_}},
         .attrs = {{"endpoint", endpoint_},
                   {"pserver_id", static_cast<int32_t>(number_)},
                   {"Fanin", int32_t{placement_.trainers}},
                   {"distributed_mode", static_cast<int32_t>(placement_.mode.label)},
                   {"optimize_blocks", optimize_blocks_},
                   {"blocks_by_round", rounds_},
                   {"grad_to_block_id", grad_blocks_},
                   {"sparse_grad_to_param", sparse_grads_},
                   {"lr_decay_block_id", int32_t{schedule_block_}},
                   {"dc_asgd", placement_.config.enable_dc_asgd},
                   {"rpc_get_thread_num", int32_t{placement_.server.rpc_get_thread_num}},
                   {"rpc_send_thread_num", int32_t{placement_.server.rpc_send_thread_num}},
                   {"rpc_prefetch_thread_num",
                    int32_t{placement_.server.rpc_prefetch_thread_num}}}},
        op_role::kRpc);
  }

  const Placement& placement_;
  const std::string& endpoint_;
  const Block& original_;
  std::shared_ptr<Program> program_;
  Block& block_;
  size_t number_ = 0;
  int parent_ = 0;
  int schedule_block_ = -1;
  BlockRefs optimize_blocks_;
  Strings received_, grad_blocks_, sparse_grads_;
  std::vector<int32_t> rounds_;             // how many of optimize_blocks_ each runs
  std::map<std::string, int> last_update_;  // slice -> its last block
};

}  // namespace

std::string part_name(const std::string& total, size_t server) {
  return cat(total, ".part_", server);
}

std::string backup_name(const std::string& slice, int trainer) {
  return of_trainer(slice, trainer) + "_bak";
}

std::shared_ptr<Program> make_server(const Placement& placement, const std::string& endpoint) {
  return ServerSide(placement, endpoint).run();
}

}  // namespace trireme
