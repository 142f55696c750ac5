// The table of flags and its lock. Flags belong to the process, so this is its one global table.
#include "core/flags.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

using enum FlagUse;

// What the rows below share a sentence for.
constexpr const char* kPlanned =
    "Memory is planned when a program is compiled, so nothing is freed during a step.";
constexpr const char* kNoPool = "Memory is asked for once per plan; there is no pool to size.";
constexpr const char* kOwnChoice =
    "The kernel for each op is chosen when a program is compiled, best first.";
constexpr const char* kFixedOrder =
    "Kernels add in a fixed order always; there is no faster unordered choice.";
constexpr const char* kServerThreads = "Written into the programs of parameter servers.";
constexpr const char* kNoServer =
    "Programs that talk to parameter servers are made but not run yet: there is no call to tune.";
constexpr const char* kDebugFile = "The profiler writes all of its output where it is told to.";

FlagValue text(const char* value) { return std::string(value); }
FlagValue whole(int64_t value) { return value; }

struct FlagRow {
  const char* name;
  FlagValue default_value;
  FlagUse use;
  const char* why;
  double least = -std::numeric_limits<double>::infinity();  // of numbers that are honoured
};

std::vector<FlagRow> rows() {
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
       "The GPUs chosen when none are named; a build without CUDA refuses them by number."},
      {"gpu_library", text(""), honoured,
       "Trireme's own: the file of the library that serves GPUs, read when one is first used; "
       "empty is libtrireme_cuda.so beside Trireme's library."},
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
      {"rpc_retry_times", whole(3), not_needed, kNoServer},
      {"rpc_send_thread_num", whole(12), honoured, kServerThreads, 1},
      {"rpc_get_thread_num", whole(12), honoured, kServerThreads, 1},
      {"rpc_prefetch_thread_num", whole(12), honoured, kServerThreads, 1},
      {"rpc_retry_bind_port", whole(3), not_needed, kNoServer},
      {"rpc_disable_reuse_port", false, not_needed, kNoServer},
      {"rpc_server_profile_path", text("./profile_ps"), not_needed, kDebugFile},
      {"worker_update_interval_secs", whole(900), not_needed, kNoServer},
      {"dist_threadpool_size", whole(0), not_needed, kNoServer},
      {"communicator_max_merge_var_num", whole(20), not_needed, kNoServer},
      {"communicator_send_queue_size", whole(20), not_needed, kNoServer},
      {"communicator_independent_recv_thread", true, not_needed, kNoServer},
      {"communicator_min_send_grad_num_before_recv", whole(20), not_needed, kNoServer},
      {"communicator_thread_pool_size", whole(5), not_needed, kNoServer},
      {"communicator_send_wait_times", whole(5), not_needed, kNoServer},
      {"communicator_is_sgd_optimizer", true, not_needed, kNoServer},
      {"communicator_merge_sparse_grad", true, not_needed, kNoServer},
      {"communicator_fake_rpc", false, refused, "Training would go on without sending anything."},
  };
}

struct Entry {
  Flag flag;
  double least;
  bool given = false;  // by the user, be it to its default
};

struct Table {
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> entries;
  std::string selected_gpus_read;  // what the variable was when the flag was last set

  Table() {
    for (const FlagRow& row : rows()) {
      Flag flag{row.name, row.default_value, row.default_value, row.use, row.why};
      entries.emplace(row.name, Entry{std::move(flag), row.least});
    }
  }
};

Table& table() {
  static Table the_table;
  return the_table;
}

std::string_view bare(std::string_view name) {
  constexpr std::string_view kPrefix = "FLAGS_";
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// The call holds the table's lock.
Entry& entry_of(std::string_view name) {
  auto& entries = table().entries;
  const auto found = entries.find(bare(name));
  if (found != entries.end()) return found->second;

  std::vector<std::pair<size_t, std::string>> near;
  for (const auto& [known, entry] : entries) {
    const size_t distance = edit_distance(bare(name), known);
    const bool part = bare(name).size() >= 4 && known.find(bare(name)) != std::string::npos;
    if (part || distance <= std::max<size_t>(2, known.size() / 4)) {
      near.emplace_back(distance, "FLAGS_" + known);
    }
  }
  std::ranges::sort(near);
  if (near.size() > 3) near.resize(3);
  std::vector<std::string> names;
  names.reserve(near.size());
  for (auto& [distance, known] : near) names.push_back(std::move(known));

  Error error(cat("there is no flag named FLAGS_", bare(name)));
  if (!names.empty()) error.fix(cat("did you mean ", join(names, " or "), "?"));
  throw error;
}

constexpr const char* kTypeNames[] = {"a bool", "a whole number", "a number", "a string"};

std::string shown(const FlagValue& value) {
  struct Show {
    std::string operator()(bool b) const { return b ? "True" : "False"; }
    std::string operator()(int64_t i) const { return cat(i); }
    std::string operator()(double d) const { return cat(d); }
    std::string operator()(const std::string& s) const { return cat("'", s, "'"); }
  };
  return std::visit(Show{}, value);
}

// `value` as the type that `like` has, or nothing.
std::optional<FlagValue> as_type_of(const FlagValue& like, const FlagValue& value) {
  if (like.index() == value.index()) return value;
  const auto* number = std::get_if<int64_t>(&value);
  if (!number) return std::nullopt;
  if (std::holds_alternative<bool>(like) && (*number == 0 || *number == 1)) return *number == 1;
  if (std::holds_alternative<double>(like)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<int64_t> parse_whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Takes the first item of a list like "0, 2" off it, without blanks around.
std::string_view next_item(std::string_view& list) {
  const size_t comma = list.find(',');
  std::string_view item = list.substr(0, comma);
  list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  while (item.starts_with(' ')) item.remove_prefix(1);
  while (item.ends_with(' ')) item.remove_suffix(1);
  return item;
}

// The ids of a list like "0,2", or nothing when it is not one.
std::optional<std::vector<int>> parse_ids(std::string_view list) {
  std::vector<int> ids;
  while (!list.empty()) {
    const std::optional<int64_t> id = parse_whole(next_item(list));
    if (!id || *id < 0 || *id > std::numeric_limits<int>::max()) return std::nullopt;
    ids.push_back(static_cast<int>(*id));
  }
  return ids;
}

void check_value(const Entry& entry, const FlagValue& value) {
  const Flag& flag = entry.flag;
  if (flag.use == refused && value != flag.default_value) {
    throw Error(cat("FLAGS_", flag.name, " cannot be set to ", shown(value), ": ", flag.why))
        .fix(cat("leave it at ", shown(flag.default_value)));
  }
  const auto* number = std::get_if<int64_t>(&value);
  if (number && static_cast<double>(*number) < entry.least) {
    throw Error(cat("FLAGS_", flag.name, " is ", *number, " but must be at least ", entry.least));
  }
  if (flag.name == "selected_gpus" && !parse_ids(std::get<std::string>(value))) {
    throw Error(cat("FLAGS_selected_gpus is ", shown(value), ", which is not a list of GPU ids"))
        .fix("write it like '0,1'");
  }
}

std::string selected_gpus_variable() {
  const char* text = std::getenv("FLAGS_selected_gpus");
  return text ? text : "";
}

// An environment variable's text as the type that `like` has, or nothing.
std::optional<FlagValue> parse_like(const FlagValue& like, const std::string& text) {
  if (std::holds_alternative<std::string>(like)) return text;
  if (std::holds_alternative<bool>(like)) {
    std::string lower = text;
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char* yes : {"1", "t", "true", "y", "yes"}) {
      if (lower == yes) return true;
    }
    for (const char* no : {"0", "f", "false", "n", "no"}) {
      if (lower == no) return false;
    }
    return std::nullopt;
  }
  if (std::holds_alternative<int64_t>(like)) {
    if (const std::optional<int64_t> value = parse_whole(text)) return *value;
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return value;
}

}  // namespace

std::string_view name_of(FlagUse use) {
  constexpr std::string_view kNames[] = {"honoured", "not needed", "refused"};
  return kNames[static_cast<size_t>(use)];
}

std::vector<Flag> list_flags() {
  const std::lock_guard lock(table().mutex);
  std::vector<Flag> flags;
  for (const auto& [name, entry] : table().entries) flags.push_back(entry.flag);
  return flags;
}

namespace {

std::atomic<uint64_t> flag_edits{1};

// What a step asks for at every run is looked up again only when a flag was set since.
template <class T>
class Remembered {
 public:
  template <class LookUp>
  T get(LookUp look_up) {
    const uint64_t now = flag_edits.load(std::memory_order_acquire);
    if (at_.load(std::memory_order_acquire) != now) {
      value_.store(look_up(), std::memory_order_relaxed);
      at_.store(now, std::memory_order_release);
    }
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> at_{0};
  std::atomic<T> value_{};
};

}  // namespace

bool is_flag(std::string_view name) {
  const std::lock_guard lock(table().mutex);
  return table().entries.contains(bare(name));
}

FlagValue get_flag(std::string_view name) {
  const std::lock_guard lock(table().mutex);
  return entry_of(name).flag.value;
}

void set_flag(std::string_view name, const FlagValue& value) {
  const std::lock_guard lock(table().mutex);
  Entry& entry = entry_of(name);
  const std::optional<FlagValue> typed = as_type_of(entry.flag.default_value, value);
  if (!typed) {
    throw Error(ErrorKind::type_mismatch,
                cat("FLAGS_", entry.flag.name, " is ", kTypeNames[entry.flag.value.index()],
                    " and cannot be set to ", kTypeNames[value.index()], ", ", shown(value)))
        .fix(cat("its default is ", shown(entry.flag.default_value)));
  }
  check_value(entry, *typed);
  entry.flag.value = *typed;
  entry.given = true;
  if (entry.flag.name == "selected_gpus") table().selected_gpus_read = selected_gpus_variable();
  flag_edits.fetch_add(1, std::memory_order_release);
}

void read_flags_from_environment() {
  const std::lock_guard lock(table().mutex);
  for (auto& [name, entry] : table().entries) {
    const char* text = std::getenv(cat("FLAGS_", name).c_str());
    if (!text) continue;
    const std::optional<FlagValue> value = parse_like(entry.flag.default_value, text);
    if (!value) {
      throw Error(cat("the environment variable FLAGS_", name, " is '", text, "', which is not ",
                      kTypeNames[entry.flag.value.index()]))
          .fix(cat("unset it, or set it to a value like ", shown(entry.flag.default_value)));
    }
    check_value(entry, *value);
    entry.flag.value = *value;
    entry.given = true;
    if (name == "selected_gpus") table().selected_gpus_read = text;
  }
  flag_edits.fetch_add(1, std::memory_order_release);
}

bool checks_nan_inf() {
  static Remembered<bool> known;
  return known.get([] {
    const bool on =
        std::get<bool>(get_flag("check_nan_inf")) || std::get<bool>(get_flag("fast_check_nan_inf"));
    for (const char* name :
         {"PADDLE_INF_NAN_SKIP_OP", "PADDLE_INF_NAN_SKIP_ROLE", "PADDLE_INF_NAN_SKIP_VAR"}) {
      if (on && std::getenv(name)) {
        warn_once(cat("the environment variable ", name,
                      " is not read here: FLAGS_check_nan_inf looks at the result of every op"));
      }
    }
    return on;
  });
}

bool fills_new_memory() {
  static Remembered<bool> known;
  return known.get([] { return std::get<bool>(get_flag("init_allocated_mem")); });
}

bool splits_by_chunks() {
  static Remembered<bool> known;
  return known.get([] { return std::get<bool>(get_flag("split_by_chunks")); });
}

std::vector<int> selected_gpus() {
  const std::lock_guard lock(table().mutex);
  Entry& entry = entry_of("selected_gpus");
  const std::string now = selected_gpus_variable();
  if (table().selected_gpus_read != now) {
    check_value(entry, now);
    entry.flag.value = now;
    table().selected_gpus_read = now;
  }
  return *parse_ids(std::get<std::string>(entry.flag.value));
}

namespace {

// How many GPUs CUDA_VISIBLE_DEVICES leaves; nothing when it is not set. CUDA reads it up to the
// first negative number; GPUs may also be named by their UUID.
std::optional<int> visible_gpus() {
  const std::lock_guard lock(table().mutex);
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!text) return std::nullopt;
  int count = 0;
  for (std::string_view rest = text; !rest.empty(); ++count) {
    const std::string_view item = next_item(rest);
    const std::optional<int64_t> id = parse_whole(item);
    if (id && *id < 0) break;
    if (!id && !item.starts_with("GPU-") && !item.starts_with("MIG-")) {
      throw Error(cat("the environment variable CUDA_VISIBLE_DEVICES is '", text,
                      "', which is not a list of GPUs"))
          .fix("write it like '0,1'");
    }
  }
  return count;
}

}  // namespace

GpuChoice gpus_of_environment() {
  const std::optional<int> visible = visible_gpus();
  GpuChoice choice{.ids = selected_gpus(), .chosen_by = {}};
  if (visible && *visible == 0) {
    throw Error("the environment variable CUDA_VISIBLE_DEVICES hides every GPU")
        .fix("unset it, or list the GPUs to use, like '0,1'");
  }
  if (!choice.ids.empty()) {
    choice.chosen_by = "FLAGS_selected_gpus";
    for (size_t i = 0; i < choice.ids.size(); ++i) {
      const int id = choice.ids[i];
      if (std::count(choice.ids.begin(), choice.ids.end(), id) > 1) {
        throw Error(cat("FLAGS_selected_gpus names GPU ", id, " twice"))
            .fix("name each GPU once, like '0,1'");
      }
      if (visible && id >= *visible) {
        throw Error(cat("FLAGS_selected_gpus names GPU ", id, ", but CUDA_VISIBLE_DEVICES leaves ",
                        *visible, ", numbered from 0"))
            .fix("count in FLAGS_selected_gpus from the first GPU that is visible");
      }
    }
  } else if (visible) {
    choice.chosen_by = "CUDA_VISIBLE_DEVICES";
    for (int id = 0; id < *visible; ++id) choice.ids.push_back(id);
  }
  return choice;
}

int cpu_num() {
  const std::lock_guard lock(table().mutex);  // setenv and getenv must not meet
  const char* text = std::getenv("CPU_NUM");
  if (!text) {
    if (std::thread::hardware_concurrency() > 1) {
      std::fprintf(
          stderr,
          "trireme: CPU_NUM is not set, so one CPU replica is used; set CPU_NUM=n to train "
          "with n of them (this machine has %u cores).\n",
          std::thread::hardware_concurrency());
    }
    ::setenv("CPU_NUM", "1", 1);
    return 1;
  }
  const std::optional<int64_t> value = parse_whole(text);
  if (!value || *value < 1 || *value > std::numeric_limits<int>::max()) {
    throw Error(cat("the environment variable CPU_NUM is '", text, "', not a number of replicas"))
        .fix("set CPU_NUM to a whole number of 1 or more");
  }
  return static_cast<int>(*value);
}

namespace {

constexpr int kMostThreads = 1024;  // more would be a slip of the hand

// OMP_NUM_THREADS may be a list, one number for each level of nesting: the first counts.
std::optional<int64_t> threads_of_openmp() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text || !*text) return std::nullopt;
  std::string_view list = text;
  const std::optional<int64_t> given = parse_whole(next_item(list));
  if (!given || *given < 1) {
    warn_once(cat("the environment variable OMP_NUM_THREADS is '", text,
                  "', not a number of threads: all cores are used"));
    return std::nullopt;
  }
  return given;
}

// What the user said, if anything.
std::optional<int64_t> threads_asked_for() {
  {
    const std::lock_guard lock(table().mutex);
    const Entry& entry = entry_of("paddle_num_threads");
    if (entry.given) return std::get<int64_t>(entry.flag.value);
  }
  return threads_of_openmp();
}

}  // namespace

int num_threads() {
  static Remembered<int> known;
  return known.get([] {
    if (const std::optional<int64_t> asked = threads_asked_for()) {
      if (*asked > kMostThreads) {
        warn_once(cat(*asked, " threads are asked for: ", kMostThreads, " are used"));
      }
      return static_cast<int>(std::min<int64_t>(*asked, kMostThreads));
    }
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return std::max(1, CPU_COUNT(&mask));
    return 1;
  });
}

}  // namespace trireme
