// Shows strategies as text, and refuses what cannot be done here.
#include "runtime/strategy.h"

#include <algorithm>

#include "compile/pipeline.h"
#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

std::string shown(bool value) { return value ? "True" : "False"; }
std::string shown(int value) { return std::to_string(value); }
std::string shown(const std::string& value) { return "'" + value + "'"; }
std::string shown(const std::optional<bool>& value) { return value ? shown(*value) : "None"; }
std::string shown(ReduceStrategy value) {
  return value == ReduceStrategy::all_reduce ? "AllReduce"
         : value == ReduceStrategy::reduce   ? "Reduce"
                                             : "_NoReduce";
}
std::string shown(GradientScaleStrategy value) {
  return value == GradientScaleStrategy::coeff_num_device ? "CoeffNumDevice"
         : value == GradientScaleStrategy::one            ? "One"
                                                          : "Customized";
}
std::string shown(UseDevice value) {
  return value == UseDevice::cpu ? "CPU" : value == UseDevice::cuda ? "CUDA" : "XPU";
}
template <class Range>
std::string shown_list(const Range& values) {
  return "[" + join(values) + "]";
}

constexpr const char* kNotFused =
    "no kernel of its own exists for it; the ops' kernels give the same results";
constexpr const char* kElementwise =
    "the pass fuse_elementwise joins chains of elementwise ops, with equal bits";
constexpr const char* kNormalisation =
    "the pass fuse_batch_norm joins batch_norm, a sum and relu, forwards and backwards, with equal "
    "bits";
constexpr const char* kGpuOnly = "only GPU engines have this part";
constexpr const char* kStartupSays = "the startup program decides: the transpiler writes it there";
constexpr const char* kPlaceDecides = "the executor's place and the places of the program decide";

// A knob that cannot be had when `asked`, and has nothing to do otherwise.
Knob refused_if(std::string name, std::string value, bool asked, std::string why) {
  return {std::move(name), std::move(value), asked ? KnobUse::refused : KnobUse::not_needed,
          std::move(why)};
}

// A number that no engine can make sense of, or nothing.
std::optional<Knob> out_of_range(std::string name, int value, int least) {
  if (value >= least) return std::nullopt;
  return Knob{std::move(name), shown(value), KnobUse::refused, cat("it must be at least ", least),
              true};
}

// Strategies are saved as lines of words.
bool has_blank(const std::string& word) {
  return word.empty() || word.find_first_of(std::string_view(" \t\r\n\0", 5)) != word.npos;
}

void refuse(const std::vector<Knob>& knobs, std::string_view strategy) {
  for (const Knob& knob : knobs) {
    if (knob.use != KnobUse::refused) continue;
    if (knob.meaningless) {
      throw Error(cat(strategy, ".", knob.name, " is ", knob.value, ": ", knob.why))
          .fix(cat("set ", knob.name, " to a value that fits, or leave it at its default"));
    }
    throw Error(ErrorKind::unimplemented,
                cat(strategy, ".", knob.name, " = ", knob.value, ": ", knob.why))
        .fix(cat("leave ", knob.name, " at its default"));
  }
}

}  // namespace

std::string_view name_of(KnobUse use) {
  switch (use) {
    case KnobUse::honoured:
      return "honoured";
    case KnobUse::always_on:
      return "always on";
    case KnobUse::not_needed:
      return "not needed";
    case KnobUse::refused:
      return "refused";
  }
  return "";
}

// A table: a row for each field.
std::vector<Knob> explain(const BuildStrategy& s) {
  using enum KnobUse;
  std::vector<Knob> knobs;
  if (s.reduce_strategy == ReduceStrategy::no_reduce) {
    knobs.push_back({"reduce_strategy", shown(s.reduce_strategy), refused,
                     "devices would train apart from each other"});
  } else {
    knobs.push_back(
        {"reduce_strategy", shown(s.reduce_strategy), honoured,
         "parameters are stored once and updated once from gradients summed in device order; "
         "AllReduce and Reduce give equal bits"});
  }
  knobs.push_back(
      {"gradient_scale_strategy", shown(s.gradient_scale_strategy), honoured,
       "CoeffNumDevice weights each device by its share of what the loss averages over"});
  const bool in_a_line = s.debug_graphviz_path.find_first_of(std::string_view("\n\0", 2)) ==
                         s.debug_graphviz_path.npos;
  knobs.push_back({"debug_graphviz_path", shown(s.debug_graphviz_path),
                   in_a_line ? honoured : refused,
                   in_a_line ? "the graph before and after the passes is written there"
                             : "a path has no line breaks and no zero bytes",
                   !in_a_line});
  knobs.push_back({"enable_sequential_execution", shown(s.enable_sequential_execution), always_on,
                   "instructions run in program order"});
  knobs.push_back({"remove_unnecessary_lock", shown(s.remove_unnecessary_lock), always_on,
                   "no instruction takes a lock"});
  knobs.push_back(
      {"fuse_elewise_add_act_ops", shown(s.fuse_elewise_add_act_ops), always_on, kElementwise});
  knobs.push_back({"fuse_bn_act_ops", shown(s.fuse_bn_act_ops), always_on, kNormalisation});
  knobs.push_back({"fuse_bn_add_act_ops", shown(s.fuse_bn_add_act_ops), always_on, kNormalisation});
  knobs.push_back({"enable_auto_fusion", shown(s.enable_auto_fusion), always_on, kElementwise});
  knobs.push_back(
      {"fuse_relu_depthwise_conv", shown(s.fuse_relu_depthwise_conv), not_needed, kNotFused});
  knobs.push_back({"fuse_gemm_epilogue", shown(s.fuse_gemm_epilogue), not_needed, kNotFused});
  knobs.push_back({"fuse_broadcast_ops", shown(s.fuse_broadcast_ops), not_needed,
                   "parameters are stored once: there is no broadcast"});
  knobs.push_back({"fuse_all_optimizer_ops", shown(s.fuse_all_optimizer_ops), always_on,
                   "the pass group_updates makes one instruction of the optimizer ops of a kind, "
                   "with equal bits"});
  knobs.push_back(
      {"fuse_all_reduce_ops", shown(s.fuse_all_reduce_ops), always_on,
       "the pass bucket_gradients lets gradients stand one behind the other: one sum at "
       "one sync point"});
  knobs.push_back({"sync_batch_norm", shown(s.sync_batch_norm), honoured,
                   "batch_norm takes the mean and variance of the whole batch"});
  const bool power = s.virtual_shards >= 0 && (s.virtual_shards & (s.virtual_shards - 1)) == 0;
  if (power) {
    knobs.push_back({"virtual_shards", shown(s.virtual_shards), honoured,
                     "0: a shard per device; else equal bits on any number of devices, with one "
                     "fetched value per shard"});
  } else {
    knobs.push_back(refused_if("virtual_shards", shown(s.virtual_shards), true,
                               "shards are summed as a binary tree: give 0, 2, 4, 8, ..."));
  }
  const std::vector<std::string> passes = pass_names();
  const auto unknown = std::ranges::find_if(s.passes_off, [&](const std::string& name) {
    return std::ranges::find(passes, name) == passes.end();
  });
  knobs.push_back(
      {"passes_off", shown_list(s.passes_off), unknown == s.passes_off.end() ? honoured : refused,
       unknown == s.passes_off.end() ? "these passes do not run"
                                     : cat("there is no pass ", *unknown, ", only ", join(passes)),
       unknown != s.passes_off.end()});
  knobs.push_back({"memory_optimize", shown(s.memory_optimize), always_on,
                   "values share one arena by their lifetimes"});
  knobs.push_back({"enable_inplace", shown(s.enable_inplace), always_on,
                   "updates are written in place where no reader is left"});
  knobs.push_back(
      {"enable_addto", shown(s.enable_addto), not_needed, "gradients are summed by sum ops"});
  knobs.push_back({"enable_backward_optimizer_op_deps", shown(s.enable_backward_optimizer_op_deps),
                   always_on, "the update runs after all gradients"});
  knobs.push_back({"cache_runtime_context", shown(s.cache_runtime_context), always_on,
                   "a bound plan looks nothing up"});
  const bool types = std::ranges::none_of(s.mkldnn_enabled_op_types, has_blank);
  knobs.push_back(refused_if("mkldnn_enabled_op_types", shown_list(s.mkldnn_enabled_op_types),
                             !types,
                             types ? "kernels are chosen by shape, the same for every program"
                                   : "an op's type is a word like conv2d"));
  const auto number = [&](const char* name, int value, int least, Knob usual) {
    knobs.push_back(out_of_range(name, value, least).value_or(std::move(usual)));
  };
  number(
      "num_trainers", s.num_trainers, 1,
      {"num_trainers", shown(s.num_trainers), honoured,
       "so many processes train together; the startup program of an nccl2 transpiler joins them"});
  number("trainer_id", s.trainer_id, 0,
         s.trainer_id < s.num_trainers
             ? Knob{"trainer_id", shown(s.trainer_id), honoured, "which of them this process is"}
             : Knob{"trainer_id", shown(s.trainer_id), refused,
                    cat("num_trainers is ", s.num_trainers), true});
  const bool words = std::ranges::none_of(s.trainers_endpoints, has_blank);
  const size_t named = s.trainers_endpoints.size();
  const bool counted = named == 0 || named == static_cast<size_t>(s.num_trainers);
  knobs.push_back({"trainers_endpoints", shown_list(s.trainers_endpoints),
                   words && counted ? honoured : refused,
                   !words     ? "an endpoint is a word like 127.0.0.1:6170"
                   : !counted ? cat("num_trainers is ", s.num_trainers)
                              : "where given, they must be those of the startup program",
                   true});
  number("nccl_comm_num", s.nccl_comm_num, 1,
         {"nccl_comm_num", shown(s.nccl_comm_num), not_needed, kGpuOnly});
  number("bkcl_comm_num", s.bkcl_comm_num, 1,
         {"bkcl_comm_num", shown(s.bkcl_comm_num), not_needed, kGpuOnly});
  knobs.push_back({"use_hierarchical_allreduce", shown(s.use_hierarchical_allreduce), not_needed,
                   kStartupSays});
  number("hierarchical_allreduce_inter_nranks", s.hierarchical_allreduce_inter_nranks, 0,
         {"hierarchical_allreduce_inter_nranks", shown(s.hierarchical_allreduce_inter_nranks),
          not_needed, kStartupSays});
  knobs.push_back({"is_distribution", shown(s.is_distribution), not_needed,
                   "whether a program sends and receives is read off its ops"});
  knobs.push_back(
      refused_if("async_mode", shown(s.async_mode), s.async_mode,
                 "asynchronous training needs the parameter server, which is not there yet"));
  knobs.push_back({"fix_op_run_order", shown(s.fix_op_run_order), always_on,
                   "instructions run in one order at every step"});
  knobs.push_back(
      {"allow_cuda_graph_capture", shown(s.allow_cuda_graph_capture), not_needed, kGpuOnly});
  return knobs;
}

std::vector<Knob> explain(const ExecutionStrategy& s) {
  using enum KnobUse;
  return {
      out_of_range("num_threads", s.num_threads, 0)
          .value_or(Knob{"num_threads", shown(s.num_threads), honoured,
                         s.num_threads == 0 ? "all cores this process may use"
                                            : "at most so many threads, over all devices"}),
      {"num_iteration_per_drop_scope", shown(s.num_iteration_per_drop_scope), not_needed,
       "nothing piles up between runs"},
      refused_if("num_iteration_per_run", shown(s.num_iteration_per_run),
                 s.num_iteration_per_run != 1,
                 "only the asynchronous executor runs several steps at once"),
      refused_if("use_thread_barrier", shown(s.use_thread_barrier), s.use_thread_barrier,
                 "it belongs to asynchronous parameter-server training, which is not there yet"),
      {"allow_op_delay", shown(s.allow_op_delay), not_needed, "it never had an effect"},
      {"use_experimental_executor", shown(s.use_experimental_executor), not_needed,
       "there is one executor"},
      refused_if("_dry_run", shown(s.dry_run), s.dry_run,
                 "a run that computes nothing has nothing to fetch; CompiledProgram.memory plans "
                 "without running"),
      {"use_cuda", shown(s.use_device == UseDevice::cuda), not_needed, kPlaceDecides},
      {"_use_device", shown(s.use_device), not_needed, kPlaceDecides},
  };
}

void check(const BuildStrategy& strategy) { refuse(explain(strategy), "BuildStrategy"); }
void check(const ExecutionStrategy& strategy) { refuse(explain(strategy), "ExecutionStrategy"); }

}  // namespace trireme
