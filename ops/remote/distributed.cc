// Ops that transpilers write and that talk to other processes. Their rows say how they look in
// programs; running one needs the multi-process runtime.
#include "core/text.h"
#include "ir/schema.h"
#include "ops/remote/send_recv.h"

namespace trireme {
namespace {

using Strings = std::vector<std::string>;
using Longs = std::vector<int64_t>;

const char* const kLocalPort = "127.0.0.1:6164";

// A program with this op is built, printed, saved and cloned; the error comes when it is run.
OpSchema& remote(Registry& ops, const char* type, const char* doc) {
  return ops.op(type)
      .doc(doc)
      .traits({.host = true, .effect = true, .no_inference = true, .cannot_run = true})
      .kernel(untyped([type = std::string(type)](const KernelSite&) -> KernelFn {
        throw Error(
            ErrorKind::unimplemented,
            cat(type, " needs the multi-process runtime, which this build does not have yet"))
            .fix("run the program as it was before the transpiler, in one process");
      }));
}

// What a trainer asks of its servers.
OpSchema& asked(Registry& ops, const char* type, const char* doc) {
  return remote(ops, type, doc).attr("trainer_id", 0, "the trainer that asks");
}

// The same, where it runs.
OpSchema& talks(Registry& ops, const char* type, const char* doc,
                KernelFn (*make)(const KernelSite&), std::vector<std::string> updates = {}) {
  return ops.op(type)
      .doc(doc)
      .traits({.host = true, .effect = true, .no_inference = true, .updates = std::move(updates)})
      .kernel(untyped(make))
      .attr("trainer_id", 0, "the trainer that asks");
}

// Tells all servers how far a trainer is.
OpSchema& barrier(OpSchema& row) {
  return row.in_optional_list("X", "what must have happened before")
      .attr("endpoints", Strings{kLocalPort}, "all servers");
}

void register_send_and_recv(Registry& ops) {
  talks(ops, "send", "Sends variables to parameter servers.", send_kernel)
      .in_optional_list("X", "gradients, or their slices")
      .out_list("Out", "a variable that stands for 'sent'")
      .attr("epmap", Strings{kLocalPort}, "one server for every variable")
      .attr("sections", Longs{}, "rows of the slices, where the sender cuts them itself")
      .attr("send_varnames", Strings{}, "names on the servers; empty: those of X")
      .attr("num", 0, "how many slices; kept for files")
      .attr("merge_add", false, "several values are added, not averaged")
      .attr("use_send_handler", true, "False: notify, so that no update runs");
  talks(ops, "recv", "Fetches variables from parameter servers.", recv_kernel)
      .in_optional_list("X", "what must have happened before")
      .out_list("Out", "parameters, or their slices")
      .attr("epmap", Strings{}, "one server for every variable")
      .attr("with_barrier", true, "wait for the servers' update")
      .attr("varnames", Strings{}, "names on the servers; empty: those of Out")
      .attr("recv_varnames", Strings{}, "slices that are joined into Out")
      .attr("do_not_run", 0, "a background thread receives instead");
  barrier(talks(ops, "send_barrier",
                "Tells parameter servers that this trainer has sent all of a step.",
                send_barrier_kernel))
      .out_list("Out", "a variable that stands for 'done'")
      .attr("half_async", false, "wait for this process's own threads only");
  barrier(talks(ops, "fetch_barrier",
                "Tells parameter servers that this trainer has received all of a step.",
                fetch_barrier_kernel, {"Out"}))
      .out_list("Out", "what was received");
  asked(ops, "prefetch", "Fetches rows of a table that parameter servers hold.")
      .in_list("X", "ids, one part for every server")
      .out_list("Out", "their rows")
      .attr("epmap", Strings{kLocalPort}, "one server for every part");
  talks(ops, "distributed_lookup_table",
        "Looks ids up in a table whose slices parameter servers hold.", remote_lookup_kernel)
      .in_list("Ids", "one or more tensors of ids")
      .in("W", "the table; only its shape is used here")
      .out_list("Outputs", "rows, one tensor for every Ids")
      .attr("table_names", Strings{""}, "the slices")
      .attr("height_sections", Longs{}, "rows of every slice")
      .attr("endpoints", Strings{kLocalPort}, "one server for every slice")
      .attr("lookup_table_version", "lookup_table", "the op this one stands for")
      .attr("padding_idx", int64_t{-1}, "the id whose row is zeros; -1: none")
      .attr("dtype", static_cast<int32_t>(DType::float32), "element type of the rows");
  asked(ops, "checkpoint_notify", "Asks parameter servers to save their part of a table.")
      .attr("epmap", Strings{kLocalPort}, "the servers")
      .required_attr<std::string>("dir", "where, on the servers' disks")
      .required_attr<std::string>("lookup_table", "the table");
  asked(ops, "recv_save", "Fetches the slices of a variable and writes them as one file.")
      .attr("dtype", static_cast<int32_t>(DType::float32), "element type")
      .attr("overwrite", true, "False: an existing file is an error")
      .required_attr<std::string>("file_path", "the file")
      .attr("shape", Longs{}, "of the whole variable")
      .attr("slice_varnames", Strings{}, "names of the slices")
      .attr("remote_varnames", Strings{}, "their names on the servers")
      .attr("slice_shapes", Strings{}, "their shapes, as \"500,64\"")
      .attr("endpoints", Strings{}, "one server for every slice");
}

void register_server(Registry& ops) {
  OpSchema& serve =
      ops.op("listen_and_serv")
          .doc("Serves parameters: receives gradients, runs update blocks, sends parameters.")
          .traits({.host = true, .effect = true, .no_inference = true})
          .kernel(untyped([](const KernelSite& site) -> KernelFn {
            throw site.error("listen_and_serv is not the only op of its program")
                .fix("run the program that get_pserver_program gives, as it is");
          }))
          .in_optional_list("X", "what trainers send")
          .attr("endpoint", kLocalPort, "where it listens")
          .attr("pserver_id", -1, "its place in the list of servers")
          .attr("grad_to_block_id", Strings{}, "gradient:block that its arrival asks for")
          .attr("distributed_mode", 0, "0 sync, 1 async, 2 half async, 3 geo")
          .attr("dc_asgd", false, "keep a copy of parameters for every trainer")
          .attr("optimize_blocks", BlockRefs{}, "the blocks of one update")
          .attr("blocks_by_round", std::vector<int32_t>{},
                "how many of them each round of barriers runs; empty: one round runs all")
          .attr("prefetch_var_name_to_block_id", Strings{}, "ids:block that looks them up")
          .attr("sparse_grad_to_param", Strings{}, "gradient:parameter, for SelectedRows")
          .attr("Fanin", 1, "number of trainers")
          .attr("checkpint_block_id", -1, "the block that saves a table")
          .attr("lr_decay_block_id", -1, "the block of the learning rate's schedule");
  for (const char* use : {"get", "send", "prefetch"}) {
    serve.attr(cat("rpc_", use, "_thread_num"), 1, "threads that answer such calls");
  }
}

// The same tensor on every rank.
OpSchema& exchange(Registry& ops, const char* type, const char* doc) {
  return remote(ops, type, doc).in("X", "any tensor").out("Out", "like X");
}

void register_collective(Registry& ops) {
  remote(ops, "gen_nccl_id", "Rank 0 makes the communicators' ids and gives them to all ranks.")
      .out("NCCLID", "the first id")
      .attr("trainers", Strings{}, "endpoints of all ranks")
      .required_attr<int32_t>("trainer_id", "this rank")
      .attr("nccl_comm_num", 1, "number of rings")
      .attr("use_hierarchical_allreduce", false, "reduce inside nodes, then among them")
      .attr("hierarchical_allreduce_inter_nranks", -1, "ranks of one node");
  remote(ops, "c_gen_nccl_id", "One ring's id, made by rank 0.")
      .out("Out", "the id")
      .required_attr<std::string>("endpoint", "of this rank")
      .attr("other_endpoints", Strings{}, "of the others")
      .attr("rank", 0, "this rank");
  remote(ops, "c_comm_init", "Makes a ring's communicator from its id.")
      .in("X", "the id")
      .required_attr<int32_t>("nranks", "how many ranks")
      .required_attr<int32_t>("rank", "this rank")
      .attr("ring_id", 0, "the ring")
      .attr("device_id", -1, "the device; -1: the executor's");
  remote(ops, "c_comm_init_all", "Makes the communicators of all devices of this process.")
      .attr("devices", std::vector<int32_t>{}, "the devices; empty: all")
      .attr("ring_id", 0, "the ring");
  exchange(ops, "c_broadcast", "The root's value on every rank.")
      .attr("ring_id", 0, "the ring")
      .attr("root", 0, "whose value it is")
      .attr("use_calc_stream", false, "accepted; changes no result");
  exchange(ops, "c_allreduce_sum", "The sum of all ranks' values on every rank.")
      .attr("ring_id", 0, "the ring")
      .attr("use_calc_stream", false, "accepted; changes no result");
  exchange(ops, "allreduce", "All ranks' values reduced into one, on every rank.")
      .attr("reduce_type", 0, "0 sum, 1 product, 2 max, 3 min")
      .attr("sync_mode", false, "accepted; changes no result");
  // One queue of work: what was asked before is done before, so there is nothing to wait for.
  for (const char* type : {"c_sync_calc_stream", "c_sync_comm_stream"}) {
    OpSchema& row = ops.op(type)
                        .doc("Orders computation and communication; X itself.")
                        .in("X", "any tensor")
                        .out("Out", "X")
                        .shape(same_as("X"))
                        .body([](Body& b) { b.out("Out") = b.in("X"); })
                        .inplace("X", "Out");
    if (std::string_view(type) == "c_sync_comm_stream") row.attr("ring_id", 0, "the ring");
  }
}

// Deep gradient compression: top-k gradients are exchanged, the rest waits.
void register_compressed(Registry& ops) {
  remote(ops, "dgc", "Picks the largest part of a gradient and keeps the rest for later steps.")
      .in("U", "momentum")
      .in("V", "what has waited")
      .in("Grad", "the gradient")
      .in("Param", "the parameter")
      .in("current_step", "steps so far")
      .in("nranks", "how many ranks")
      .out("U_out", "U")
      .out("V_out", "V")
      .out("EncodeGrad", "values and places that are sent")
      .out("Grad_out", "what is left to reduce in the usual way")
      .out("k", "how many values are sent")
      .out("GatherBuff", "room for all ranks' values")
      .attr("m", 0.9f, "momentum")
      .attr("use_nesterov", true, "Nesterov's momentum")
      .required_attr<std::vector<float>>("sparsity", "share that waits, by phase")
      .attr("rampup_begin_step", 0.0f, "when compression starts")
      .required_attr<float>("rampup_step", "steps of all phases together")
      .attr("regular_coeff", 0.0f, "weight decay")
      .attr("regular_type", 0, "0 none, 1 L1, 2 L2");
  remote(ops, "dgc_clip_by_norm", "clip_by_norm from the step on where compression starts.")
      .in("X", "a gradient")
      .in("current_step", "steps so far")
      .out("Out", "like X")
      .required_attr<float>("max_norm", "the largest norm")
      .attr("rampup_begin_step", -1.0f, "when compression starts");
  remote(ops, "dgc_momentum", "momentum before compression starts, sgd after it.")
      .in("Param", "the parameter")
      .in("Grad", "its gradient")
      .in("Velocity", "momentum's state")
      .in("LearningRate", "one number")
      .in("current_step", "steps so far")
      .in("nranks", "how many ranks")
      .out("ParamOut", "Param")
      .out("VelocityOut", "Velocity")
      .out("Grad_out", "the gradient divided by the ranks")
      .required_attr<float>("mu", "momentum")
      .attr("use_nesterov", false, "Nesterov's momentum")
      .attr("rampup_begin_step", -1.0f, "when compression starts");
}

}  // namespace

void register_distributed(Registry& ops) {
  register_send_and_recv(ops);
  register_server(ops);
  register_collective(ops);
  register_compressed(ops);
}

}  // namespace trireme
