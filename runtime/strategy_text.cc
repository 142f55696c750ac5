// Strategies as text, for files.
#include <charconv>
#include <limits>
#include <sstream>

#include "core/error.h"
#include "core/text.h"
#include "runtime/strategy.h"

namespace trireme {
namespace {

// Every field once: what writes and what reads walk the same list.
template <class Visit>
void each_field(BuildStrategy& s, const Visit& visit) {
  visit("build.reduce_strategy", s.reduce_strategy);
  visit("build.gradient_scale_strategy", s.gradient_scale_strategy);
  visit("build.debug_graphviz_path", s.debug_graphviz_path);
  visit("build.enable_sequential_execution", s.enable_sequential_execution);
  visit("build.remove_unnecessary_lock", s.remove_unnecessary_lock);
  visit("build.fuse_elewise_add_act_ops", s.fuse_elewise_add_act_ops);
  visit("build.fuse_bn_act_ops", s.fuse_bn_act_ops);
  visit("build.fuse_bn_add_act_ops", s.fuse_bn_add_act_ops);
  visit("build.enable_auto_fusion", s.enable_auto_fusion);
  visit("build.fuse_relu_depthwise_conv", s.fuse_relu_depthwise_conv);
  visit("build.fuse_gemm_epilogue", s.fuse_gemm_epilogue);
  visit("build.fuse_broadcast_ops", s.fuse_broadcast_ops);
  visit("build.fuse_all_optimizer_ops", s.fuse_all_optimizer_ops);
  visit("build.fuse_all_reduce_ops", s.fuse_all_reduce_ops);
  visit("build.sync_batch_norm", s.sync_batch_norm);
  visit("build.virtual_shards", s.virtual_shards);
  visit("build.passes_off", s.passes_off);
  visit("build.memory_optimize", s.memory_optimize);
  visit("build.enable_inplace", s.enable_inplace);
  visit("build.enable_addto", s.enable_addto);
  visit("build.enable_backward_optimizer_op_deps", s.enable_backward_optimizer_op_deps);
  visit("build.cache_runtime_context", s.cache_runtime_context);
  visit("build.mkldnn_enabled_op_types", s.mkldnn_enabled_op_types);
  visit("build.num_trainers", s.num_trainers);
  visit("build.trainer_id", s.trainer_id);
  visit("build.trainers_endpoints", s.trainers_endpoints);
  visit("build.nccl_comm_num", s.nccl_comm_num);
  visit("build.bkcl_comm_num", s.bkcl_comm_num);
  visit("build.use_hierarchical_allreduce", s.use_hierarchical_allreduce);
  visit("build.hierarchical_allreduce_inter_nranks", s.hierarchical_allreduce_inter_nranks);
  visit("build.is_distribution", s.is_distribution);
  visit("build.async_mode", s.async_mode);
  visit("build.fix_op_run_order", s.fix_op_run_order);
  visit("build.allow_cuda_graph_capture", s.allow_cuda_graph_capture);
}

template <class Visit>
void each_field(ExecutionStrategy& s, const Visit& visit) {
  visit("exec.num_threads", s.num_threads);
  visit("exec.num_iteration_per_drop_scope", s.num_iteration_per_drop_scope);
  visit("exec.num_iteration_per_run", s.num_iteration_per_run);
  visit("exec.use_thread_barrier", s.use_thread_barrier);
  visit("exec.allow_op_delay", s.allow_op_delay);
  visit("exec.use_experimental_executor", s.use_experimental_executor);
  visit("exec.dry_run", s.dry_run);
  visit("exec.use_device", s.use_device);
}

std::string written(bool value) { return value ? "1" : "0"; }
std::string written(int value) { return std::to_string(value); }
std::string written(const std::string& value) { return value; }
std::string written(const std::optional<bool>& value) { return value ? written(*value) : ""; }
std::string written(ReduceStrategy value) { return written(static_cast<int>(value)); }
std::string written(GradientScaleStrategy value) { return written(static_cast<int>(value)); }
std::string written(UseDevice value) { return written(static_cast<int>(value)); }
template <class List>
std::string written(const List& values) {
  return join(values, " ");
}

[[noreturn]] void wrong(const std::string& name, const std::string& value) {
  throw Error(cat("strategy field ", name, " cannot be '", value, "'"));
}

int number(const std::string& name, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    wrong(name, text);
  }
  return value;
}

void take(const std::string& name, const std::string& text, bool& value) {
  value = number(name, text, 0, 1) != 0;
}
void take(const std::string& name, const std::string& text, int& value) {
  value = number(name, text, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
}
void take(const std::string&, const std::string& text, std::string& value) { value = text; }
void take(const std::string& name, const std::string& text, std::optional<bool>& value) {
  value.reset();
  if (!text.empty()) value = number(name, text, 0, 1) != 0;
}
void take(const std::string& name, const std::string& text, ReduceStrategy& value) {
  value = static_cast<ReduceStrategy>(number(name, text, 0, 2));
}
void take(const std::string& name, const std::string& text, GradientScaleStrategy& value) {
  value = static_cast<GradientScaleStrategy>(number(name, text, 0, 2));
}
void take(const std::string& name, const std::string& text, UseDevice& value) {
  value = static_cast<UseDevice>(number(name, text, 0, 2));
}
template <class List>
void take(const std::string&, const std::string& text, List& values) {
  values.clear();
  std::istringstream words(text);
  for (std::string word; words >> word;) values.insert(values.end(), word);
}

}  // namespace

std::string to_text(const BuildStrategy& build, const ExecutionStrategy& exec) {
  std::string text;
  const auto write = [&](const char* name, const auto& value) {
    text += cat(name, " = ", written(value), "\n");
  };
  BuildStrategy build_copy = build;
  ExecutionStrategy exec_copy = exec;
  each_field(build_copy, write);
  each_field(exec_copy, write);
  return text;
}

void read_text(const std::string& text, BuildStrategy& build, ExecutionStrategy& exec) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find(" = ");
    if (equals == line.npos) wrong(line, "");
    const std::string name = line.substr(0, equals), value = line.substr(equals + 3);
    bool known = false;
    const auto read = [&](const char* field, auto& into) {
      if (name != field) return;
      known = true;
      take(name, value, into);
    };
    each_field(build, read);
    each_field(exec, read);
    if (!known) wrong(name, value);
  }
}

}  // namespace trireme
