// The trainer's startup program: first values come from the servers.
#include <algorithm>
#include <set>

#include "core/text.h"
#include "transpiler/edit.h"
#include "transpiler/report.h"
#include "transpiler/trainer.h"

namespace trireme {
namespace {

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

// Parameters for which `wanted` holds.
template <class Wanted>
void receive_first_values(Block& block, const Placement& placement, const SourceLine& line,
                          const Wanted& wanted) {
  const Attrs::value_type trainer_id{"trainer_id", int32_t{placement.trainer_id}};
  for (const PlacedParam& param : placement.params) {
    if (!wanted(param)) continue;
    if (param.is_split()) add_slices_of(block, param);
    append_filled(block,
                  {.type = "recv",
                   .outputs = {{"Out", param.names()}},
                   .attrs = {{"epmap", param.endpoints()}, trainer_id}},
                  op_role::kRpc, line);
  }
  append_filled(block,
                {.type = "fetch_barrier",
                 .outputs = {{"Out", {add_control_var(block)}}},
                 .attrs = {{"endpoints", placement.endpoints}, trainer_id}},
                op_role::kRpc, line);
  for (const PlacedParam& param : placement.params) {
    if (wanted(param) && param.is_split()) append_join(block, param);
  }
}

// This trainer's steps, one by one: servers add them up.
void fill_step_counters(Block& block, const Placement& placement, const SourceLine& line) {
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

// A shape and no memory: the rows are on the servers.
void fake_table(Block& block, const PlacedParam& table, const SourceLine& line) {
  std::vector<const Op*> inits;
  for (const Op* op : block.ops()) {
    const auto writes = op->output_names();
    if (std::ranges::find(writes, table.name) != writes.end()) inits.push_back(op);
  }
  if (inits.size() != 1) {
    throw transpile_error(cat("table ", table.name, " has ", inits.size(),
                              " ops that initialise it in the startup program; there must be one"));
  }
  remove_ops(block, inits);
  append_filled(block,
                {.type = "fake_init",
                 .outputs = {{"Out", {table.name}}},
                 .attrs = {{"shape", table.shape.to_vector()}}},
                op_role::kForward, line);
}

}  // namespace

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
  if (placement.async_counter()) fill_step_counters(block, placement, line);
  receive_first_values(block, placement, line,
                       [](const PlacedParam& param) { return !param.remote_rows; });
  for (const PlacedParam& param : placement.params) {
    if (param.remote_rows) fake_table(block, param, line);
  }
}

void make_geo_trainer_startup(Program& startup, const Placement& placement) {
  Block& block = startup.global_block();
  const SourceLine line = block.size() > 0 ? block.op(0).line() : SourceLine{};
  receive_first_values(block, placement, line, [](const PlacedParam&) { return true; });
  // Tells the sender's thread that first values are there.
  block.create_var({.name = "param_init", .shape = {1}});
  append_filled(block,
                {.type = "send",
                 .inputs = {{"X", {"param_init"}}},
                 .outputs = {{"Out", {add_control_var(block)}}},
                 .attrs = {{"epmap", placement.endpoints},
                           {"send_varnames", std::vector<std::string>{"param_init"}},
                           {"trainer_id", int32_t{placement.trainer_id}}}},
                op_role::kRpc, line);
}

}  // namespace trireme
