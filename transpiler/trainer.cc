// Takes updates out of the trained program and puts sends and receives in their place.
#include "transpiler/trainer.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "ir/copy.h"
#include "transpiler/edit.h"
#include "transpiler/report.h"
#include "transpiler/server.h"
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
    std::vector<const Op*> moved = ops.schedule, kept;
    for (const Update& update : ops.updates) {
      moved.insert(moved.end(), update.ops.begin(), update.ops.end());
    }
    for (const Op* op : ops.clips) {
      const bool moves = std::ranges::find(placement_.clips.ops, op) != placement_.clips.ops.end();
      (moves ? moved : kept).push_back(op);
    }
    std::vector<const Op*> gone = same_ops(main_, *placement_.main, moved);
    const std::vector<const Op*> followers = same_ops(main_, *placement_.main, ops.followers);
    // Each trainer clips its own gradients before it sends them.
    for (const Op* op : same_ops(main_, *placement_.main, kept)) {
      block_.op(static_cast<size_t>(op->index())).set_attr("op_role", int32_t{op_role::kBackward});
    }
    for (const size_t i : placement_.send_order) send_grads(placement_.params[i]);
    if (placement_.async_counter()) send_counter();
    if (!placement_.clips.joins.empty()) add_round_of_norms();
    end_of_sends();
    receive();
    // Averages of parameters are taken when the servers' values are there.
    for (const Op* op : followers) {
      Op& later = block_.insert_raw_op(block_.size(), op->spec(), op->line());
      later.former_names = op->former_names;
      gone.push_back(op);
    }
    remove(gone);
  }

 private:
  // The gradient's op sends it: after it, and after what a regularizer puts behind it.
  void send_grads(const PlacedParam& param) {
    for (const size_t i : param.updates) {
      const Update& update = placement_.ops.updates[i];
      const std::string& own = placement_.sent_grad(update);
      std::string grad = own;
      const bool rename = placement_.mode.sync && placement_.by_trainer() && !param.is_split();
      if (rename) {
        grad = of_trainer(grad, placement_.trainer_id);
        block_.rename_var(own, grad);
      }
      const int writer = find_writer(block_, grad);
      if (writer < 0) {
        throw transpile_error(cat("no op computes the gradient ", grad), ErrorKind::precondition)
            .fix("call minimize in the program that is transpiled");
      }
      auto at = static_cast<size_t>(writer) + 1;
      const SourceLine line = block_.op(at - 1).line();
      Strings sent = {grad};
      if (param.is_split() && !placement_.split_at_run()) {
        sent = add_slices(param, own);
        insert_split(at++, param, grad, sent, line);
      }
      const std::string dummy = add_control_var(block_);
      Attrs attrs{{"epmap", param.endpoints()},
                  {"trainer_id", int32_t{placement_.trainer_id}},
                  {"op_role_var", Strings{param.name, grad}}};
      if (placement_.split_at_run()) {
        attrs["sections"] = param.rows();
        attrs["send_varnames"] = remote_grads(param, own);
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

  // The first trainer adds up what the servers have to say about the gradients' norms.
  void add_round_of_norms() {
    end_of_sends();
    std::vector<std::pair<std::string, Strings>> parts_of;  // total -> its parts
    Strings received;
    for (size_t j = 0; placement_.trainer_id == 0 && j < placement_.clips.joins.size(); ++j) {
      const std::string& total = placement_.clips.joins[j].total;
      Strings parts, endpoints;
      for (const size_t k : servers_of_join(placement_, static_cast<int>(j))) {
        parts.push_back(clone_var(block_, block_.var(total), part_name(total, k)).name());
        endpoints.push_back(placement_.endpoints[k]);
      }
      receive_parts(parts, endpoints);
      add(received, parts);
      parts_of.emplace_back(total, parts);
    }
    if (placement_.mode.sync) end_of_receives(received);
    for (const auto& [total, parts] : parts_of) {
      append_filled(block_,
                    {.type = "sum", .inputs = {{"X", parts}}, .outputs = {{"Out", {total}}}},
                    op_role::kDist);
      send_total(total);
    }
  }

  // A background thread that cuts and joins takes one variable per op.
  void receive_parts(const Strings& parts, const Strings& endpoints) {
    const auto append = [&](const Strings& names, const Strings& from) {
      Attrs attrs{{"epmap", from}, {"trainer_id", int32_t{placement_.trainer_id}}};
      if (placement_.split_at_run()) attrs["recv_varnames"] = names;
      append_filled(block_,
                    {.type = "recv",
                     .inputs = {{"X", {barrier_}}},
                     .outputs = {{"Out", names}},
                     .attrs = std::move(attrs)},
                    op_role::kRpc);
    };
    if (!placement_.split_at_run()) return append(parts, endpoints);
    for (size_t i = 0; i < parts.size(); ++i) append({parts[i]}, {endpoints[i]});
  }

  void send_total(const std::string& total) {
    const auto append = [&](const Strings& to) {
      const std::string dummy = add_control_var(block_);
      Attrs attrs{{"epmap", to}, {"trainer_id", int32_t{placement_.trainer_id}}};
      if (placement_.split_at_run()) {
        attrs["sections"] = std::vector<int64_t>{1};
        attrs["send_varnames"] = Strings{total};
      }
      append_filled(block_,
                    {.type = "send",
                     .inputs = {{"X", Strings(to.size(), total)}},
                     .outputs = {{"Out", {dummy}}},
                     .attrs = std::move(attrs)},
                    op_role::kRpc);
      sent_[total].push_back(dummy);
    };
    if (!placement_.split_at_run()) return append(placement_.endpoints);
    for (const std::string& endpoint : placement_.endpoints) append({endpoint});
  }

  void end_of_sends() {
    if (!placement_.mode.sync && !placement_.config.half_async) return;
    Strings dummies;
    for (const PlacedParam& param : placement_.params) add(dummies, sent_[param.name]);
    for (const ClipJoin& join : placement_.clips.joins) add(dummies, sent_[join.total]);
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
      if (!joined && param.is_split()) add_slices_of(block_, param);
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
    if (placement_.mode.sync) end_of_receives(received);
    if (placement_.split_at_run()) return;
    for (const PlacedParam& param : placement_.params) {
      if (!param.remote_rows && param.is_split()) append_join(block_, param);
    }
  }

  void end_of_receives(Strings received) {
    if (received.empty()) received.push_back(add_control_var(block_));
    append_filled(block_,
                  {.type = "fetch_barrier",
                   .inputs = {{"X", {barrier_}}},
                   .outputs = {{"Out", received}},
                   .attrs = {{"endpoints", placement_.endpoints},
                             {"trainer_id", int32_t{placement_.trainer_id}}}},
                  op_role::kRpc);
  }

  static void add(Strings& to, const Strings& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

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

}  // namespace

void make_trainer(Program& main, const Placement& placement) { TrainerSide(main, placement).run(); }

void add_slices_of(Block& block, const PlacedParam& param) {
  for (const Slice& slice : param.slices) {
    block.create_var({.name = slice.name, .dtype = param.dtype, .shape = slice.shape});
  }
}

void append_join(Block& block, const PlacedParam& param) {
  append_filled(block,
                {.type = "concat",
                 .inputs = {{"X", param.names()}},
                 .outputs = {{"Out", {param.name}}},
                 .attrs = {{"axis", int32_t{0}}}},
                op_role::kDist);
}

}  // namespace trireme
