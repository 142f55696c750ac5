// Geo: trainers keep their optimizer and push what changed; servers add it up.
#include <algorithm>
#include <set>

#include "core/text.h"
#include "transpiler/edit.h"
#include "transpiler/server.h"
#include "transpiler/trainer.h"

namespace trireme {
namespace {

using Strings = std::vector<std::string>;

std::string delta_name(const std::string& name) { return name + ".delta"; }

bool is_sparse_lookup(const Op& op) {
  return (op.type() == "lookup_table" || op.type() == "lookup_table_v2") &&
         op.attr_or<bool>("is_sparse", false);
}

}  // namespace

void make_geo_trainer(Program& main, const Placement& placement) {
  Block& block = main.global_block();
  Strings ids, tables;
  std::set<std::pair<std::string, std::string>> seen;
  for (Op* op : block.ops()) {
    if (!is_sparse_lookup(*op)) continue;
    op->set_attr("remote_prefetch", false);
    for (const std::string& name : op->input("Ids")) {
      const std::string& table = op->input("W").front();
      if (!seen.emplace(name, table).second) continue;
      ids.push_back(name);
      tables.push_back(table);
    }
  }
  append_filled(block,
                {.type = "send",
                 .inputs = {{"X", ids}},
                 .outputs = {{"Out", {add_control_var(block)}}},
                 .attrs = {{"epmap", placement.endpoints},
                           {"send_varnames", tables},
                           {"trainer_id", int32_t{placement.trainer_id}}}},
                op_role::kRpc);
}

std::shared_ptr<Program> make_geo_server(const Placement& placement, const std::string& endpoint) {
  std::shared_ptr<Program> program = Program::create();
  program->set_seed(placement.main->seed());
  Block& block = program->global_block();
  BlockRefs blocks;
  Strings grads;
  for (const PlacedParam& param : placement.params) {
    for (const Slice& slice : param.slices) {
      if (slice.endpoint != endpoint) continue;
      const std::string delta = delta_name(slice.name);
      block.create_var(
          {.name = slice.name, .dtype = param.dtype, .shape = slice.shape, .persistable = true});
      block.create_var({.name = delta,
                        .type = param.sparse_grad ? VarType::selected_rows : VarType::lod_tensor,
                        .dtype = param.dtype,
                        .shape = slice.shape});
      Block& update = program->create_block(0);
      append_filled(update,
                    {.type = "sum",
                     .inputs = {{"X", {slice.name, delta}}},
                     .outputs = {{"Out", {slice.name}}}},
                    op_role::kOptimize);
      blocks.indices.push_back(update.index());
      grads.push_back(cat(delta, ":", update.index()));
    }
  }
  if (blocks.indices.empty()) blocks.indices.push_back(program->create_block(0).index());
  program->set_current(0);
  append_filled(
      block,
      {.type = "listen_and_serv",
       .attrs = {{"endpoint", endpoint},
                 {"Fanin", int32_t{placement.trainers}},
                 {"distributed_mode", static_cast<int32_t>(DistributedMode::geo)},
                 {"optimize_blocks", blocks},
                 {"grad_to_block_id", grads},
                 {"rpc_get_thread_num", int32_t{placement.server.rpc_get_thread_num}},
                 {"rpc_send_thread_num", int32_t{placement.server.rpc_send_thread_num}},
                 {"rpc_prefetch_thread_num", int32_t{placement.server.rpc_prefetch_thread_num}}}},
      op_role::kRpc);
  return program;
}

}  // namespace trireme
