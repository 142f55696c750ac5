// How a program is compiled and run: every knob of the original, and what it does here.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class ReduceStrategy { all_reduce = 0, reduce = 1, no_reduce = 2 };
enum class GradientScaleStrategy { coeff_num_device = 0, one = 1, customized = 2 };
enum class UseDevice { cpu = 0, cuda = 1, xpu = 2 };

struct BuildStrategy {
  ReduceStrategy reduce_strategy = ReduceStrategy::all_reduce;
  GradientScaleStrategy gradient_scale_strategy = GradientScaleStrategy::coeff_num_device;
  std::string debug_graphviz_path;
  bool enable_sequential_execution = false;
  bool remove_unnecessary_lock = true;
  bool fuse_elewise_add_act_ops = false;
  bool fuse_bn_act_ops = false;
  bool fuse_bn_add_act_ops = true;
  bool enable_auto_fusion = false;
  bool fuse_relu_depthwise_conv = false;
  bool fuse_gemm_epilogue = false;
  bool fuse_broadcast_ops = true;
  bool fuse_all_optimizer_ops = false;
  bool fuse_all_reduce_ops = true;
  bool sync_batch_norm = false;
  // Of this engine: a batch is cut into this many shards whatever the number of devices, so that
  // 1, 2, 4 and 8 devices give equal bits. 0: one shard per device.
  int virtual_shards = 0;
  // Of this engine: passes of the compiler that do not run; pass_names() lists them.
  std::vector<std::string> passes_off;
  std::optional<bool> memory_optimize;
  bool enable_inplace = true;
  bool enable_addto = false;
  bool enable_backward_optimizer_op_deps = true;
  bool cache_runtime_context = false;
  std::set<std::string> mkldnn_enabled_op_types;
  int num_trainers = 1;
  int trainer_id = 0;
  std::vector<std::string> trainers_endpoints;
  int nccl_comm_num = 1;
  int bkcl_comm_num = 1;
  bool use_hierarchical_allreduce = false;
  int hierarchical_allreduce_inter_nranks = 0;
  bool is_distribution = false;
  bool async_mode = false;
  bool fix_op_run_order = false;
  bool allow_cuda_graph_capture = false;
};

struct ExecutionStrategy {
  int num_threads = 0;  // 0: the engine decides
  int num_iteration_per_drop_scope = 100;
  int num_iteration_per_run = 1;
  bool use_thread_barrier = false;
  bool allow_op_delay = false;
  bool use_experimental_executor = true;
  bool dry_run = false;
  UseDevice use_device = UseDevice::cuda;  // 1.8 calls it use_cuda
};

// What a knob does here.
enum class KnobUse {
  honoured,    // does what it says
  always_on,   // the engine does it whatever the knob says
  not_needed,  // accepted: the engine has no such part, results are the same
  refused,     // the value asked for cannot be had: compiling is an Error
};
std::string_view name_of(KnobUse use);

struct Knob {
  std::string name;
  std::string value;  // as it stands in the strategy
  KnobUse use;
  std::string why;
  bool meaningless = false;  // refused because no engine could make sense of the value
};
// All fields as "name = value" lines, and back; an Error names a line that is not one.
std::string to_text(const BuildStrategy& build, const ExecutionStrategy& exec);
void read_text(const std::string& text, BuildStrategy& build, ExecutionStrategy& exec);

// Every field with its answer, in the order of the structs.
std::vector<Knob> explain(const BuildStrategy& strategy);
std::vector<Knob> explain(const ExecutionStrategy& strategy);

// An Error for the first knob that is refused.
void check(const BuildStrategy& strategy);
void check(const ExecutionStrategy& strategy);

}  // namespace trireme
