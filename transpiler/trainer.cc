#include "transpiler/trainer.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "ir/copy.h"
#include "transpiler/edit.h"
#include "transpiler/tables.h"

namespace trireme {
namespace {

using Strings = std::vector<std::string>;

// `main` is a copy of placement.main op by op, so that positions in one are positions in the other.
std::vector<const Op*> same_ops(const Program& main, const Program& original,
                                const std::vector<const Op*>& ops) {
  std::map<const Op*, size_t> at;
  for (size_t i = 0; i < original.global_block().size(); ++i)
    at[&original.global_block().op(i)] = i;
  std::vector<const Op*> found;
  for (const Op* op : ops) found.push_back(&main.global_block().op(at.at(op)));
  return found;
}

class TrainerSide {
 public:
  TrainerSide(Program& main, const Placement& placement)
      : main_(main), block_(main.global_block()), placement_(placement) {}

  void run() {
    const UpdateOps& ops = placement_.ops;
    // Before anything moves: the ops of the original are found by position.
    const std::vector<const Op*> clips = same_ops(main_, *placement_.main, ops.clips);
    std::vector<const Op*> gone = same_ops(main_, *placement_.main, ops.schedule);
    for (const Update& update : ops.updates) {
      for (const Op* op : same_ops(main_, *placement_.main, update.ops)) gone.push_back(op);
    }
    // Each trainer clips its own gradients before it sends them.
    for (const Op* op : clips) {
      block_.op(static_cast<size_t>(op->index())).set_attr("op_role", int32_t{op_role::kBackward});
    }
    for (const size_t i : placement_.send_order) send_grads(placement_.params[i]);
    for (size_t i = 0; i < placement_.tables.size(); ++i) send_table_grad(placement_.tables[i]);
    if (placement_.async_counter()) send_counter();
    end_of_sends();
    receive();
    remove(gone);
  }

 private:
  // The gradient's op sends it: after it, and after what a regularizer puts behind it.
  void send_grads(const PlacedParam& param) {
    for (const size_t i : param.updates) {
      const Update& update = placement_.ops.updates[i];
      std::string grad = update.grad;
      const bool rename = placement_.mode.sync && placement_.by_trainer() && !param.is_split();
      if (rename) {
        grad = of_trainer(grad, placement_.trainer_id);
        block_.rename_var(update.grad, grad);
      }
      const int writer = find_writer(block_, grad);
      if (writer < 0) {
        throw Error(ErrorKind::precondition, cat("no op computes the gradient ", grad))
            .in("DistributeTranspiler")
            .fix("call minimize in the program that is transpiled");
      }
      auto at = static_cast<size_t>(writer) + 1;
      const SourceLine line = block_.op(at - 1).line();
      Strings sent = {grad};
      if (param.is_split() && !placement_.split_at_run()) {
        sent = add_slices(param, update.grad);
        insert_split(at++, param, grad, sent, line);
      }
      const std::string dummy = add_control_var(block_);
      Attrs attrs{{"epmap", param.endpoints()},
                  {"trainer_id", int32_t{placement_.trainer_id}},
                  {"op_role_var", Strings{param.name, grad}}};
      if (placement_.split_at_run()) {
        attrs["sections"] = param.rows();
        attrs["send_varnames"] = remote_grads(param, update.grad);
      }
      insert_filled(block_, at,
                    {.type = "send",
                     .inputs = {{"X", sent}},
                     .outputs = {{"Out", {dummy}}},
                     .attrs = std::move(attrs)},
                    op_role::kRpc, line);
      sent_[param.name].push_back(dummy);
      grad_sent_.try_emplace(param.name, grad);
    }
  }

  // Names of a gradient's slices on the servers, where the sender cuts it itself.
  Strings remote_grads(const PlacedParam& param, const std::string& grad) const {
    Strings names;
    for (size_t s = 0; s < param.slices.size(); ++s) {
      const std::string name = param.grad_name(grad, s);
      names.push_back(placement_.by_trainer() ? of_trainer(name, placement_.trainer_id) : name);
    }
    return names;
  }

  Strings add_slices(const PlacedParam& param, const std::string& grad) {
    const Var& whole = block_.var(grad);
    Strings names;
    for (size_t s = 0; s < param.slices.size(); ++s) {
      std::string name = param.grad_name(grad, s);
      if (placement_.by_trainer()) name = of_trainer(name, placement_.trainer_id);
      block_.create_var({.name = name,
                         .type = whole.type(),
                         .dtype = whole.dtype(),
                         .shape = param.slices[s].shape});
      names.push_back(std::move(name));
    }
    return names;
  }

  void insert_split(size_t at, const PlacedParam& param, const std::string& grad,
                    const Strings& slices, const SourceLine& line) {
    const std::vector<int64_t> rows = param.rows();
    const bool sparse = block_.var(grad).type() == VarType::selected_rows;
    OpSpec spec{.type = sparse ? "split_selected_rows" : "split_byref",
                .inputs = {{"X", {grad}}},
                .outputs = {{"Out", slices}}};
    if (sparse) {
      spec.attrs["height_sections"] = rows;
    } else {
      spec.attrs["sections"] = std::vector<int32_t>(rows.begin(), rows.end());
    }
    insert_filled(block_, at, std::move(spec), op_role::kDist, line);
  }

  void send_table_grad(const PlacedTable& table) {
    const int writer = find_writer(block_, table.grad);
    if (writer < 0) {
      throw Error(ErrorKind::precondition, cat("no op computes the gradient ", table.grad))
          .in("DistributeTranspiler");
    }
    const SourceLine line = block_.op(static_cast<size_t>(writer)).line();
    Strings shards;
    for (size_t k = 0; k < placement_.endpoints.size(); ++k) {
      const std::string by_trainer =
          placement_.by_trainer() ? of_trainer(table.grad, placement_.trainer_id) : table.grad;
      shards.push_back(cat(by_trainer, ".pserver_", k));
      block_.create_var({.name = shards.back(),
                         .type = VarType::selected_rows,
                         .dtype = table.dtype,
                         .shape = table.shape});
    }
    const std::string dummy = add_control_var(block_);
    auto at = static_cast<size_t>(writer) + 1;
    insert_filled(
        block_, at++,
        {.type = "split_ids", .inputs = {{"Ids", {table.grad}}}, .outputs = {{"Out", shards}}},
        op_role::kDist, line);
    insert_filled(block_, at,
                  {.type = "send",
                   .inputs = {{"X", shards}},
                   .outputs = {{"Out", {dummy}}},
                   .attrs = {{"epmap", placement_.endpoints},
                             {"trainer_id", int32_t{placement_.trainer_id}},
                             {"op_role_var", Strings{table.name, table.grad}}}},
                  op_role::kRpc, line);
    sent_[table.name].push_back(dummy);
  }

  // Servers count every trainer's steps: each step sends this trainer's 1 to all of them.
  void send_counter() {
    const std::string counter = of_trainer(std::string(kLrCounter), placement_.trainer_id);
    clone_var(block_, block_.var(kLrCounter), counter);
    Attrs attrs{{"epmap", placement_.endpoints},
                {"trainer_id", int32_t{placement_.trainer_id}},
                {"merge_add", true},
                {"use_send_handler", false},
                {"op_role_var", Strings{counter, counter}}};
    if (placement_.split_at_run()) {
      attrs["sections"] = std::vector<int64_t>{1};
      attrs["send_varnames"] = Strings{counter};
    }
    append_filled(block_,
                  {.type = "send",
                   .inputs = {{"X", {counter}}},
                   .outputs = {{"Out", {add_control_var(block_)}}},
                   .attrs = std::move(attrs)},
                  op_role::kRpc);
  }

  void end_of_sends() {
    if (!placement_.mode.sync && !placement_.config.half_async) return;
    Strings dummies;
    for (const PlacedParam& param : placement_.params) add(dummies, sent_[param.name]);
    for (const PlacedTable& table : placement_.tables) add(dummies, sent_[table.name]);
    barrier_ = add_control_var(block_);
    append_filled(block_,
                  {.type = "send_barrier",
                   .inputs = {{"X", dummies}},
                   .outputs = {{"Out", {barrier_}}},
                   .attrs = {{"endpoints", placement_.endpoints},
                             {"trainer_id", int32_t{placement_.trainer_id}},
                             {"half_async", placement_.config.half_async}}},
                  op_role::kRpc);
  }

  void receive() {
    Strings received;
    for (const PlacedParam& param : placement_.params) {
      if (param.remote_rows) continue;
      const bool joined = placement_.split_at_run();
      if (!joined && param.is_split()) add_param_slices(block_, param);
      const Strings outs = joined ? Strings{param.name} : param.names();
      Attrs attrs{{"epmap", param.endpoints()},
                  {"trainer_id", int32_t{placement_.trainer_id}},
                  {"op_role_var", Strings{param.name, grad_sent_.at(param.name)}}};
      if (joined) attrs["recv_varnames"] = param.names();
      append_filled(block_,
                    {.type = "recv",
                     .inputs = {{"X", barrier_.empty() ? sent_[param.name] : Strings{barrier_}}},
                     .outputs = {{"Out", outs}},
                     .attrs = std::move(attrs)},
                    op_role::kRpc);
      add(received, outs);
    }
    for (const PlacedParam& param : placement_.params) {
      if (param.remote_rows) rewrite_remote_lookups(block_, param, placement_.trainer_id);
    }
    for (size_t i = 0; i < placement_.tables.size(); ++i) {
      rewrite_table_lookups(block_, placement_.tables[i], placement_,
                            i * placement_.endpoints.size());
    }
    if (placement_.mode.sync) {
      if (received.empty()) received.push_back(add_control_var(block_));
      append_filled(block_,
                    {.type = "fetch_barrier",
                     .inputs = {{"X", {barrier_}}},
                     .outputs = {{"Out", received}},
                     .attrs = {{"endpoints", placement_.endpoints},
                               {"trainer_id", int32_t{placement_.trainer_id}}}},
                    op_role::kRpc);
    }
    if (placement_.split_at_run()) return;
    for (const PlacedParam& param : placement_.params) {
      if (!param.remote_rows && param.is_split()) append_concat(block_, param);
    }
  }

  static void add(Strings& to, const Strings& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

 public:
  static void add_param_slices(Block& block, const PlacedParam& param) {
    for (const Slice& slice : param.slices) {
      block.create_var({.name = slice.name, .dtype = param.dtype, .shape = slice.shape});
    }
  }

  static void append_concat(Block& block, const PlacedParam& param) {
    append_filled(block,
                  {.type = "concat",
                   .inputs = {{"X", param.names()}},
                   .outputs = {{"Out", {param.name}}},
                   .attrs = {{"axis", int32_t{0}}}},
                  op_role::kDist);
  }

 private:
  // Ops that moved to the servers, the variables that only they named, and blocks that only they
  // owned.
  void remove(const std::vector<const Op*>& gone) {
    std::set<std::string> touched;
    for (const Op* op : gone) {
      for (const auto& names : {op->input_names(), op->output_names()}) {
        touched.insert(names.begin(), names.end());
      }
    }
    remove_ops(block_, gone);
    std::set<int> used = {0};
    std::set<std::string> named;
    for (size_t b = 0; b < main_.num_blocks(); ++b) {
      if (b > 0 && !used.contains(static_cast<int>(b))) continue;
      for (const Op* op : main_.block(static_cast<int>(b)).ops()) {
        for (const auto& names : {op->input_names(), op->output_names()}) {
          named.insert(names.begin(), names.end());
        }
        for (const auto& [key, value] : op->attrs()) {
          for (const int index : blocks_in(value)) used.insert(index);
        }
      }
    }
    for (const std::string& name : touched) {
      const bool counter = name.starts_with(kLrCounter);
      if (!named.contains(name) && !counter && block_.find_var(name)) block_.remove_var(name);
    }
    if (used.size() < main_.num_blocks()) main_.keep_blocks({used.begin(), used.end()});
  }

  Program& main_;
  Block& block_;
  const Placement& placement_;
  std::map<std::string, Strings> sent_;           // parameter -> what its sends left
  std::map<std::string, std::string> grad_sent_;  // parameter -> its gradient's name now
  std::string barrier_;
};

// Names that only updates read: rates, states.
std::set<std::string> update_only(const Placement& placement) {
  std::set<std::string> names, pairs;
  for (const Update& update : placement.ops.updates) {
    pairs.insert({update.param, update.grad});
    for (const Op* op : update.ops) {
      for (const std::string& name : op->input_names()) names.insert(name);
    }
  }
  for (const std::string& name : pairs) names.erase(name);
  return names;
}

}  // namespace

void make_trainer(Program& main, const Placement& placement) { TrainerSide(main, placement).run(); }

void make_trainer_startup(Program& startup, const Program& trained, const Placement& placement) {
  Block& block = startup.global_block();
  const SourceLine line = block.size() > 0 ? block.op(0).line() : SourceLine{};
  // What only updates need is made on the servers.
  for (const std::string& name : update_only(placement)) {
    if (!block.find_var(name) || trained.global_block().find_var(name)) continue;
    for (size_t i = block.size(); i-- > 0;) {
      const auto writes = block.op(i).output_names();
      if (std::ranges::find(writes, name) != writes.end()) block.remove_ops(i, i + 1);
    }
    block.remove_var(name);
  }
  if (placement.async_counter()) {
    for (int i = placement.trainers; i-- > 0;) {
      const std::string name = of_trainer(std::string(kLrCounter), i);
      const Var& counter = placement.main->global_block().var(kLrCounter);
      clone_var(block, counter, name);
      insert_filled(block, 0,
                    {.type = "fill_constant",
                     .outputs = {{"Out", {name}}},
                     .attrs = {{"shape", std::vector<int64_t>{1}},
                               {"dtype", static_cast<int32_t>(counter.dtype())},
                               {"value", placement.ops.step_counter->attr_or<float>("step", 1.0f)},
                               {"force_cpu", true}}},
                    op_role::kForward, line);
    }
  }
  for (const PlacedParam& param : placement.params) {
    if (param.remote_rows) continue;
    if (param.is_split()) TrainerSide::add_param_slices(block, param);
    append_filled(
        block,
        {.type = "recv",
         .outputs = {{"Out", param.names()}},
         .attrs = {{"epmap", param.endpoints()}, {"trainer_id", int32_t{placement.trainer_id}}}},
        op_role::kRpc, line);
  }
  append_filled(block,
                {.type = "fetch_barrier",
                 .outputs = {{"Out", {add_control_var(block)}}},
                 .attrs = {{"endpoints", placement.endpoints},
                           {"trainer_id", int32_t{placement.trainer_id}}}},
                op_role::kRpc, line);
  for (const PlacedParam& param : placement.params) {
    if (!param.remote_rows && param.is_split()) TrainerSide::append_concat(block, param);
  }
  const auto fake = [&](const std::string& name, const Shape& shape) {
    std::vector<const Op*> inits;
    for (const Op* op : block.ops()) {
      const auto writes = op->output_names();
      if (std::ranges::find(writes, name) != writes.end()) inits.push_back(op);
    }
    if (inits.size() != 1) {
      throw Error(cat("table ", name, " has ", inits.size(),
                      " ops that initialise it in the startup program; there must be one"))
          .in("DistributeTranspiler");
    }
    remove_ops(block, inits);
    append_filled(block,
                  {.type = "fake_init",
                   .outputs = {{"Out", {name}}},
                   .attrs = {{"shape", shape.to_vector()}}},
                  op_role::kForward, line);
  };
  for (const PlacedParam& param : placement.params) {
    if (param.remote_rows) fake(param.name, param.shape);
  }
  for (const PlacedTable& table : placement.tables) fake(table.name, table.shape);
}

}  // namespace trireme
