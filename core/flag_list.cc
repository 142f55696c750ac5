// The list of flags: what each does here, its default, and why it is so.
#include "core/flag_table.h"

namespace trireme {
namespace {

using enum FlagUse;

// What rows share a sentence for.
constexpr const char* kPlanned =
    "Memory is planned when a program is compiled, so nothing is freed during a step.";
constexpr const char* kNoPool = "Memory is asked for once per plan; there is no pool to size.";
constexpr const char* kOwnChoice =
    "The kernel for each op is chosen when a program is compiled, best first.";
constexpr const char* kFixedOrder =
    "Kernels add in a fixed order always; there is no faster unordered choice.";
constexpr const char* kServerThreads = "Written into the programs of parameter servers.";
constexpr const char* kOwnOrder =
    "Trainers send and receive in the order of their steps; there is no sender beside them to "
    "tune.";
constexpr const char* kRepeats =
    "A broken connection is made again for seconds, and what comes twice is applied once.";
constexpr const char* kOnePort = "A port that another process has is an error at once.";
constexpr const char* kDebugFile = "The profiler writes all of its output where it is told to.";

FlagValue text(const char* value) { return std::string(value); }
FlagValue whole(int64_t value) { return value; }

}  // namespace

// A table: a row for each flag.
std::vector<FlagRow> flag_rows() {
  return {
      // Checking and debugging.
      {"check_nan_inf", false, honoured, "The result of each op is searched for NaN and infinity."},
      {"fast_check_nan_inf", false, honoured, "Turns on the same search as check_nan_inf."},
      {"check_passes", false, honoured,
       "Trireme's own: each new plan's numbers are compared with those of no passes."},
      {"benchmark", false, not_needed, "Each op has finished before the next begins."},
      {"init_allocated_mem", false, honoured, "New memory is filled with NaN."},
      {"call_stack_level", whole(1), not_needed, "Errors show the user's own line, always."},
      {"pe_profile_fname", text(""), not_needed, kDebugFile},
      {"tracer_profile_fname", text(""), not_needed, kDebugFile},
      {"print_sub_graph_dir", text(""), not_needed, "Programs and plans are printed on request."},
      {"reader_queue_speed_test_mode", false, refused,
       "It makes readers repeat one batch for ever, which would be mistaken for training."},
      {"enable_rpc_profiler", false, not_needed, kDebugFile},

      // Threads and determinism.
      {"paddle_num_threads", whole(1), honoured,
       "Threads of the team that runs CPU kernels; where it is not set, one for each core.", 1},
      {"inner_op_parallelism", whole(0), not_needed, "Ops share the team of paddle_num_threads."},
      {"cpu_deterministic", false, not_needed, kFixedOrder},
      {"cudnn_deterministic", false, not_needed, kFixedOrder},
      {"max_inplace_grad_add", whole(0), not_needed,
       "Gradients are summed in place wherever the memory plan allows it."},

      // Choice of devices and kernels.
      {"selected_gpus", text(""), honoured,
       "The GPUs chosen when none are named; all that are visible where it is empty."},
      {"gpu_library", text(""), honoured,
       "Trireme's own: the file of the library that serves GPUs, read when one is first used; "
       "empty is libtrireme_cuda.so beside Trireme's library."},
      {"allow_tf32", false, honoured,
       "Trireme's own: matrix products and convolutions of float32 on a GPU may round their "
       "operands to 10 bits, which is faster; read when a program is first run."},
      {"use_mkldnn", false, not_needed, kOwnChoice},
      {"conv_winograd", true, honoured,
       "Convolutions may take Winograd's algorithm, by a fixed rule on their sizes."},
      {"use_cinn", false, not_needed, kOwnChoice},
      {"use_autotune", false, not_needed, kOwnChoice},
      {"cudnn_exhaustive_search", false, not_needed, kOwnChoice},
      {"cudnn_exhaustive_search_times", whole(-1), not_needed, kOwnChoice},
      {"cudnn_batchnorm_spatial_persistent", false, not_needed, kOwnChoice},
      {"enable_cublas_tensor_op_math", false, not_needed, kOwnChoice},
      {"conv_workspace_size_limit", whole(512), not_needed,
       "Workspaces are part of the memory plan."},
      {"convert_all_blocks", true, not_needed, "Passes see every block, always."},

      // Freeing and allocating memory.
      {"eager_delete_tensor_gb", 0.0, not_needed, kPlanned},
      {"fast_eager_deletion_mode", true, not_needed, kPlanned},
      {"memory_fraction_of_eager_deletion", 1.0, not_needed, kPlanned},
      {"eager_delete_scope", true, not_needed, kPlanned},
      {"local_exe_sub_scope_limit", 256.0, not_needed, kPlanned},
      {"allocator_strategy", text("auto_growth"), not_needed, kNoPool},
      {"fraction_of_gpu_memory_to_use", 0.92, not_needed, kNoPool},
      {"initial_gpu_memory_in_mb", whole(0), not_needed, kNoPool},
      {"reallocate_gpu_memory_in_mb", whole(0), not_needed, kNoPool},
      {"gpu_memory_limit_mb", whole(0), refused,
       "A program that relies on the limit would not be stopped by it."},
      {"fraction_of_cpu_memory_to_use", 1.0, not_needed, kNoPool},
      {"initial_cpu_memory_in_mb", whole(500), not_needed, kNoPool},
      {"fraction_of_cuda_pinned_memory_to_use", 0.5, not_needed, kNoPool},
      {"use_pinned_memory", true, not_needed, kNoPool},
      {"use_system_allocator", false, not_needed, "The system's allocator is the only one."},
      {"free_idle_chunk", false, not_needed, kNoPool},
      {"free_when_no_cache_hit", false, not_needed, kNoPool},

      // Several devices.
      {"sync_nccl_allreduce", true, not_needed, "The plan waits exactly where a result is used."},
      {"original_random", false, honoured,
       "Trireme's own: seeded random ops draw the numbers of PaddlePaddle 1.8 on the CPU, so that "
       "an "
       "old program repeats its old curve."},
      {"split_by_chunks", false, honoured,
       "Trireme's own: a batch is split as the original's code does since 1.8, in equal chunks of "
       "which the last is short, not as its documents say."},
      {"enable_parallel_graph", false, not_needed, "Replicas run side by side, always."},
      {"fuse_parameter_memory_size", -1.0, not_needed,
       "All gradients of a type stand in one bucket."},
      {"fuse_parameter_groups_size", whole(1), not_needed,
       "All gradients of a type stand in one bucket."},

      // Parameter server.
      {"rpc_deadline", whole(180000), honoured,
       "Milliseconds a run waits for the processes its program needs; 0 is no limit.", 0},
      {"lost_trainer", text("fail"), honoured,
       "Trireme's own: what a parameter server in sync mode does when a trainer ends without "
       "leaving: fail (the job ends and names it) or shrink (the others go on)."},
      {"heartbeat_limit", whole(10), honoured,
       "Trireme's own: seconds without a beat after which a trainer is taken for dead.", 3},
      {"table_memory", whole(0), honoured,
       "Trireme's own: MB that a parameter server gives to each sparse table; rows are made on "
       "first "
       "use, and what has no room goes to RocksDB; 0: tables are whole, in memory.",
       0},
      {"table_directory", text(""), honoured,
       "Trireme's own: where rows go that have no room in memory; empty is the snapshots' "
       "directory, or one for files that do not last."},
      {"server_snapshot", text(""), honoured,
       "Trireme's own: the directory where a parameter server keeps a snapshot of what it has, and "
       "from which it goes on when it is started again; empty is none."},
      {"server_snapshot_seconds", whole(5), honoured,
       "Trireme's own: seconds between two snapshots of a parameter server; more where writing one "
       "takes long, fewer where much has come since.",
       0},
      {"server_return_limit", whole(60), honoured,
       "Trireme's own: seconds that trainers wait for a parameter server with snapshots to come "
       "again.",
       1},
      {"hang_watchdog", whole(30), honoured,
       "Trireme's own: seconds a trainer waits at a parameter server before that says who waits "
       "for whom; 0 is never.",
       0},
      {"collective_limit", whole(1800000), honoured,
       "Trireme's own: milliseconds that a rank waits for the others in one exchange before the "
       "job "
       "ends with an error that names them.",
       1},
      {"job_token", text(""), honoured,
       "Trireme's own: a secret of all processes of a job; one with another is refused."},
      {"plaintext", text("warn"), honoured,
       "Trireme's own: what is done where processes on other machines are talked to, as nothing is "
       "encrypted: warn (once), refuse or allow."},
      {"tls_certificate", text(""), honoured,
       "Trireme's own: a file with this process's certificate (PEM); with tls_key and "
       "tls_authority "
       "all that the processes of a job tell each other is encrypted, and both ends are checked."},
      {"tls_key", text(""), honoured,
       "Trireme's own: a file with the private key of that certificate (PEM)."},
      {"tls_authority", text(""), honoured,
       "Trireme's own: a file with the certificate that has signed those of all processes (PEM)."},
      {"drop_answers", text(""), honoured,
       "Trireme's own, for tests: the share of parameter servers' answers that a trainer throws "
       "away and asks for again, and a seed, as 0.2,7."},
      {"rpc_retry_times", whole(3), not_needed, kRepeats},
      {"rpc_send_thread_num", whole(12), honoured, kServerThreads, 1},
      {"rpc_get_thread_num", whole(12), honoured, kServerThreads, 1},
      {"rpc_prefetch_thread_num", whole(12), honoured, kServerThreads, 1},
      {"rpc_retry_bind_port", whole(3), not_needed, kOnePort},
      {"rpc_disable_reuse_port", false, not_needed, kOnePort},
      {"rpc_server_profile_path", text("./profile_ps"), not_needed, kDebugFile},
      {"worker_update_interval_secs", whole(900), not_needed,
       "A trainer is missed by its beats, within heartbeat_limit seconds."},
      {"dist_threadpool_size", whole(0), not_needed, "Each trainer has a thread at each server."},
      {"communicator_max_merge_var_num", whole(20), not_needed, kOwnOrder},
      {"communicator_send_queue_size", whole(20), not_needed, kOwnOrder},
      {"communicator_independent_recv_thread", true, not_needed, kOwnOrder},
      {"communicator_min_send_grad_num_before_recv", whole(20), not_needed, kOwnOrder},
      {"communicator_thread_pool_size", whole(5), not_needed, kOwnOrder},
      {"communicator_send_wait_times", whole(5), not_needed, kOwnOrder},
      {"communicator_is_sgd_optimizer", true, not_needed, kOwnOrder},
      {"communicator_merge_sparse_grad", true, not_needed, kOwnOrder},
      {"communicator_fake_rpc", false, refused, "Training would go on without sending anything."},
  };
}

}  // namespace trireme
