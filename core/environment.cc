// What the environment says: flags, GPUs, replicas, threads. No other file of the engine reads it.
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/error.h"
#include "core/flag_table.h"
#include "core/lookups.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

const char* environment_variable(const char* name) {
  count_name_lookup();
  return std::getenv(name);
}

}  // namespace

std::string selected_gpus_variable() {
  const char* text = environment_variable("FLAGS_selected_gpus");
  return text ? text : "";
}

namespace {

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

void read_flags_from_environment() {
  const std::lock_guard lock(flag_table().mutex);
  for (auto& [name, entry] : flag_table().entries) {
    const char* text = environment_variable(cat("FLAGS_", name).c_str());
    if (!text) continue;
    const std::optional<FlagValue> value = parse_like(entry.flag.default_value, text);
    if (!value) {
      throw Error(cat("the environment variable FLAGS_", name, " is '", text, "', which is not ",
                      type_name(entry.flag.value)))
          .fix(cat("unset it, or set it to a value like ", shown(entry.flag.default_value)));
    }
    check_flag(entry, *value);
    entry.flag.value = *value;
    entry.given = true;
    if (name == "selected_gpus") flag_table().selected_gpus_read = text;
  }
  flag_edits.fetch_add(1, std::memory_order_release);
}

bool checks_nan_inf() {
  static RememberedFlag<bool> known;
  return known.get([] {
    const bool on =
        std::get<bool>(get_flag("check_nan_inf")) || std::get<bool>(get_flag("fast_check_nan_inf"));
    for (const char* name :
         {"PADDLE_INF_NAN_SKIP_OP", "PADDLE_INF_NAN_SKIP_ROLE", "PADDLE_INF_NAN_SKIP_VAR"}) {
      if (on && environment_variable(name)) {
        warn_once(cat("the environment variable ", name,
                      " is not read here: FLAGS_check_nan_inf looks at the result of every op"));
      }
    }
    return on;
  });
}

std::vector<int> selected_gpus() {
  const std::lock_guard lock(flag_table().mutex);
  FlagEntry& entry = flag_entry("selected_gpus");
  const std::string now = selected_gpus_variable();
  if (flag_table().selected_gpus_read != now) {
    check_flag(entry, now);
    entry.flag.value = now;
    flag_table().selected_gpus_read = now;
  }
  return *parse_ids(std::get<std::string>(entry.flag.value));
}

namespace {

// How many GPUs CUDA_VISIBLE_DEVICES leaves; nothing when it is not set. CUDA reads it up to the
// first negative number; GPUs may also be named by their UUID.
std::optional<int> visible_gpus() {
  const std::lock_guard lock(flag_table().mutex);
  const char* text = environment_variable("CUDA_VISIBLE_DEVICES");
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
  const std::lock_guard lock(flag_table().mutex);  // setenv and getenv must not meet
  const char* text = environment_variable("CPU_NUM");
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
  const char* text = environment_variable("OMP_NUM_THREADS");
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
    const std::lock_guard lock(flag_table().mutex);
    const FlagEntry& entry = flag_entry("paddle_num_threads");
    if (entry.given) return std::get<int64_t>(entry.flag.value);
  }
  return threads_of_openmp();
}

}  // namespace

int num_threads() {
  static RememberedFlag<int> known;
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
