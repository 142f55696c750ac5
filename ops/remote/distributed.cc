// Ops that transpilers write and that talk to parameter servers. Their rows say how they look in
// programs.
#include "core/text.h"
#include "ir/schema.h"
#include "ops/remote/rings.h"
#include "ops/remote/send_recv.h"

namespace trireme {
namespace {

using Strings = std::vector<std::string>;
using Longs = std::vector<int64_t>;

const char* const kLocalPort = "127.0.0.1:6164";

// A program with this op is built, printed, saved and cloned; the error comes when it is run.
OpSchema& compressed(Registry& ops, const char* type, const char* doc) {
  return ops.op(type)
      .doc(doc)
      .traits({.host = true, .effect = true, .no_inference = true, .cannot_run = true})
      .kernel(untyped([type = std::string(type)](const KernelSite&) -> KernelFn {
        throw Error(ErrorKind::unimplemented,
                    cat(type, " belongs to deep gradient compression, which is not built"))
            .fix("train with Momentum: all gradients are exchanged whole");
      }));
}

// What a trainer asks of its servers.
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
  talks(ops, "prefetch", "Fetches rows of a table that parameter servers hold.", prefetch_kernel)
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
  talks(ops, "checkpoint_notify", "Asks parameter servers to save their part of a table.",
        checkpoint_notify_kernel)
      .attr("epmap", Strings{kLocalPort}, "the servers")
      .required_attr<std::string>("dir", "where, on the servers' disks")
      .required_attr<std::string>("lookup_table", "the table");
  talks(ops, "recv_save", "Fetches the slices of a variable and writes them as one file.",
        recv_save_kernel)
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

// Deep gradient compression: top-k gradients are exchanged, the rest waits.
void register_compressed(Registry& ops) {
  compressed(ops, "dgc", "Picks the largest part of a gradient and keeps the rest for later steps.")
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
  compressed(ops, "dgc_clip_by_norm", "clip_by_norm from the step on where compression starts.")
      .in("X", "a gradient")
      .in("current_step", "steps so far")
      .out("Out", "like X")
      .required_attr<float>("max_norm", "the largest norm")
      .attr("rampup_begin_step", -1.0f, "when compression starts");
  compressed(ops, "dgc_momentum", "momentum before compression starts, sgd after it.")
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
  register_rings(ops);
  register_compressed(ops);
}

}  // namespace trireme
