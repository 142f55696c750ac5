// The process's flags (FLAGS_<name>), what each does here, and the one place that reads the
// environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

enum class FlagUse {
  honoured,    // the engine does what the flag asks
  not_needed,  // accepted without effect: the engine does better, or has no such part
  refused,     // only the default may be set: ignoring it would break what the user counts on
};

std::string_view name_of(FlagUse use);  // "honoured", "not needed" or "refused"

using FlagValue = std::variant<bool, int64_t, double, std::string>;

struct Flag {
  std::string name;  // without "FLAGS_"
  FlagValue value;
  FlagValue default_value;
  FlagUse use;
  std::string why;  // one sentence: how it is honoured, or why it has no effect
};

// Every public flag, by name, with its value now.
std::vector<Flag> list_flags();

// Names are taken with or without "FLAGS_". An unknown name is an Error that names near ones.
bool is_flag(std::string_view name);
FlagValue get_flag(std::string_view name);
// A bool flag also takes 0 and 1, a double flag also whole numbers; other mixtures are an Error.
void set_flag(std::string_view name, const FlagValue& value);

// Sets each flag whose FLAGS_<name> is in the environment. Called once, at the API's edge.
void read_flags_from_environment();

// check_nan_inf or fast_check_nan_inf is set.
bool checks_nan_inf();
// init_allocated_mem is set.
bool fills_new_memory();
// split_by_chunks is set.
bool splits_by_chunks();
// original_random is set.
bool draws_original_numbers();
// The ids in the selected_gpus flag, in its order; empty when it is not set. What the environment
// variable got since the flags were read counts too.
std::vector<int> selected_gpus();

// The GPUs that the environment chooses, as CUDA numbers them: FLAGS_selected_gpus, else all that
// CUDA_VISIBLE_DEVICES leaves. A list that is none, that names a GPU twice, one that is hidden, or
// that hides all is an Error.
struct GpuChoice {
  std::vector<int> ids;
  std::string chosen_by;  // the variable; empty: neither is set, and no choice is made
};
GpuChoice gpus_of_environment();

// How many CPU replicas a data-parallel program gets: the CPU_NUM variable, read at every call.
// When it is absent, one notice goes to stderr and CPU_NUM becomes 1 for this process.
int cpu_num();

// How many threads one run may use: FLAGS_paddle_num_threads or OMP_NUM_THREADS where the user set
// one, else the cores this process may run on.
int num_threads();

}  // namespace trireme
