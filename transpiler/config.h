// What users choose about distributed programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transpiler/dispatcher.h"

namespace trireme {

// Numbers of listen_and_serv's distributed_mode.
enum class DistributedMode : int { sync = 0, async = 1, half_async = 2, geo = 3 };

struct DistributeTranspilerConfig {
  bool slice_var_up = true;  // False: one block per variable, placed in a shuffled order
  // Makes the dispatcher for the given servers; null: RoundRobin.
  std::function<std::unique_ptr<PsDispatcher>(std::vector<std::string>)> split_method = {};
  int64_t min_block_size = 8192;  // elements, whatever their type
  bool enable_dc_asgd = false;    // delay-compensated updates; async only
  std::string mode = "pserver";   // "pserver", "nccl2" or "collective"
  bool print_log = false;
  bool wait_port = true;  // runs wait for the other ranks' ports
  bool sync_mode = true;  // here or in transpile: if either is False, training is async
  // Senders cut and receivers join slices themselves; async only.
  bool runtime_split_send_recv = false;
  bool geo_sgd_mode = false;  // trainers update; servers add up what changed
  int geo_sgd_need_push_nums = 100;
  bool half_async = false;            // with runtime_split_send_recv: threads wait for each other
  bool completely_not_async = false;  // with half_async: and all trainers do
  int nccl_comm_num = 1;
  bool use_hierarchical_allreduce = false;
  int hierarchical_allreduce_inter_nranks = 0;
  std::optional<std::string> collective_mode = {};  // "grad_allreduce", "local_sgd",
                                                    // "single_process_multi_thread"
};

// Errors name the field, its value and what is allowed.
void check(const DistributeTranspilerConfig& config);

// One answer out of the config's fields and transpile's sync_mode; contradictions are Errors.
struct ResolvedMode {
  bool sync = true;              // shape of the programs: barriers, gradients by trainer
  bool merge_by_trainer = true;  // servers sum one gradient per trainer
  DistributedMode label = DistributedMode::sync;
};
ResolvedMode resolve_mode(const DistributeTranspilerConfig& config, bool sync_mode_argument);

// Threads of a server's RPC, from the flags.
struct ServerRuntimeConfig {
  int rpc_send_thread_num = 12;
  int rpc_get_thread_num = 12;
  int rpc_prefetch_thread_num = 12;
};

}  // namespace trireme
