// CompiledProgram and its strategies.
#include "runtime/compiled_program.h"

#include <algorithm>

#include "core/lookups.h"
#include "core/text.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"
#include "python/binding/without_gil.h"
#include "runtime/merge_fetches.h"
#include "runtime/places.h"

namespace trireme::binding {
namespace {

void bind_strategies(py::module_& m) {
  py::class_<BuildStrategy> build(m, "BuildStrategy");
  py::enum_<ReduceStrategy>(build, "ReduceStrategy")
      .value("AllReduce", ReduceStrategy::all_reduce)
      .value("Reduce", ReduceStrategy::reduce)
      .value("_NoReduce", ReduceStrategy::no_reduce);
  py::enum_<GradientScaleStrategy>(build, "GradientScaleStrategy")
      .value("CoeffNumDevice", GradientScaleStrategy::coeff_num_device)
      .value("One", GradientScaleStrategy::one)
      .value("Customized", GradientScaleStrategy::customized);
  build.def(py::init<>())
      .def_readwrite("reduce_strategy", &BuildStrategy::reduce_strategy)
      .def_readwrite("gradient_scale_strategy", &BuildStrategy::gradient_scale_strategy)
      .def_readwrite("debug_graphviz_path", &BuildStrategy::debug_graphviz_path)
      .def_readwrite("enable_sequential_execution", &BuildStrategy::enable_sequential_execution)
      .def_readwrite("remove_unnecessary_lock", &BuildStrategy::remove_unnecessary_lock)
      .def_readwrite("fuse_elewise_add_act_ops", &BuildStrategy::fuse_elewise_add_act_ops)
      .def_readwrite("fuse_bn_act_ops", &BuildStrategy::fuse_bn_act_ops)
      .def_readwrite("fuse_bn_add_act_ops", &BuildStrategy::fuse_bn_add_act_ops)
      .def_readwrite("enable_auto_fusion", &BuildStrategy::enable_auto_fusion)
      .def_readwrite("fuse_relu_depthwise_conv", &BuildStrategy::fuse_relu_depthwise_conv)
      .def_readwrite("fuse_gemm_epilogue", &BuildStrategy::fuse_gemm_epilogue)
      .def_readwrite("fuse_broadcast_ops", &BuildStrategy::fuse_broadcast_ops)
      .def_readwrite("fuse_all_optimizer_ops", &BuildStrategy::fuse_all_optimizer_ops)
      .def_readwrite("fuse_all_reduce_ops", &BuildStrategy::fuse_all_reduce_ops)
      .def_readwrite("sync_batch_norm", &BuildStrategy::sync_batch_norm)
      .def_readwrite("virtual_shards", &BuildStrategy::virtual_shards)
      .def_readwrite("passes_off", &BuildStrategy::passes_off)
      .def_readwrite("memory_optimize", &BuildStrategy::memory_optimize)
      .def_readwrite("enable_inplace", &BuildStrategy::enable_inplace)
      .def_readwrite("enable_addto", &BuildStrategy::enable_addto)
      .def_readwrite("enable_backward_optimizer_op_deps",
                     &BuildStrategy::enable_backward_optimizer_op_deps)
      .def_readwrite("cache_runtime_context", &BuildStrategy::cache_runtime_context)
      .def_readwrite("mkldnn_enabled_op_types", &BuildStrategy::mkldnn_enabled_op_types)
      .def_readwrite("num_trainers", &BuildStrategy::num_trainers)
      .def_readwrite("trainer_id", &BuildStrategy::trainer_id)
      .def_readwrite("trainers_endpoints", &BuildStrategy::trainers_endpoints)
      .def_readwrite("nccl_comm_num", &BuildStrategy::nccl_comm_num)
      .def_readwrite("bkcl_comm_num", &BuildStrategy::bkcl_comm_num)
      .def_readwrite("use_hierarchical_allreduce", &BuildStrategy::use_hierarchical_allreduce)
      .def_readwrite("hierarchical_allreduce_inter_nranks",
                     &BuildStrategy::hierarchical_allreduce_inter_nranks)
      .def_readwrite("is_distribution", &BuildStrategy::is_distribution)
      .def_readwrite("async_mode", &BuildStrategy::async_mode)
      .def_readwrite("fix_op_run_order", &BuildStrategy::fix_op_run_order)
      .def_readwrite("allow_cuda_graph_capture", &BuildStrategy::allow_cuda_graph_capture)
      .def("_assign", [](BuildStrategy& self, const BuildStrategy& strategy) { self = strategy; });
  py::enum_<UseDevice>(m, "DeviceType")
      .value("CPU", UseDevice::cpu)
      .value("CUDA", UseDevice::cuda)
      .value("XPU", UseDevice::xpu);

  py::class_<ExecutionStrategy>(m, "ExecutionStrategy")
      .def(py::init<>())
      .def_readwrite("num_threads", &ExecutionStrategy::num_threads)
      .def_readwrite("num_iteration_per_drop_scope",
                     &ExecutionStrategy::num_iteration_per_drop_scope)
      .def_readwrite("num_iteration_per_run", &ExecutionStrategy::num_iteration_per_run)
      .def_readwrite("use_thread_barrier", &ExecutionStrategy::use_thread_barrier)
      .def_readwrite("allow_op_delay", &ExecutionStrategy::allow_op_delay)
      .def_readwrite("use_experimental_executor", &ExecutionStrategy::use_experimental_executor)
      .def_readwrite("_dry_run", &ExecutionStrategy::dry_run)
      .def_readwrite("_use_device", &ExecutionStrategy::use_device)
      .def_property(
          "use_cuda",
          [](const ExecutionStrategy& self) { return self.use_device == UseDevice::cuda; },
          [](ExecutionStrategy& self, bool use_cuda) {
            self.use_device = use_cuda ? UseDevice::cuda : UseDevice::cpu;
          });
}

Merge merge_from_python(const py::dict& merge, const std::string& name) {
  if (merge.empty()) return Merge::join;
  count_name_lookup();
  const py::str key(name);
  if (!merge.contains(key)) return Merge::join;
  return merge[key].cast<std::string>() == "one" ? Merge::first : Merge::mean;
}

py::list each_to_python(std::vector<Variable>& pieces, bool return_numpy, const std::string& name) {
  py::list values;
  for (Variable& piece : pieces) {
    values.append(fetched_to_python(std::move(piece), return_numpy, name));
  }
  return values;
}

py::list run(CompiledProgram& compiled, Executor& executor, const py::object& feed,
             const std::vector<std::string>& fetches, const std::shared_ptr<ScopeHandle>& scope,
             bool return_numpy, bool return_merged, bool use_prune, const py::dict& merge) {
  const Program& program = *compiled.program();
  const std::shared_ptr<ScopeHandle> used = scope ? scope : global_scope_handle();
  RunOptions options;
  options.scope = &used->get();
  options.use_prune = use_prune;
  options.keep_optimizers = use_prune;
  options.poll = poll_signals;
  std::vector<Replicas::Result> results;
  if (PyDict_Check(feed.ptr())) {
    const Feeds feeds = feeds_from_python(program, py::reinterpret_borrow<py::dict>(feed));
    if (return_merged && compiled.has_one_device(executor)) {
      std::vector<Variable> alone;
      {
        const WithoutGil without_gil;
        alone = compiled.run_alone(executor, feeds, fetches, std::move(options));
      }
      return fetches_to_python(alone, return_numpy, fetches);
    }
    const WithoutGil without_gil;
    results = compiled.run(executor, feeds, fetches, std::move(options));
  } else {
    std::vector<Feeds> feeds;
    for (const py::handle device : feed) {
      feeds.push_back(feeds_from_python(program, device.cast<py::dict>()));
    }
    const WithoutGil without_gil;
    results = compiled.run(executor, feeds, fetches, std::move(options));
  }
  py::list values(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    std::optional<Variable> merged;
    if (return_merged) {
      merged = merge_fetch(fetches[i], results[i], merge_from_python(merge, fetches[i]));
    }
    values[i] = merged ? fetched_to_python(std::move(*merged), return_numpy, fetches[i])
                       : each_to_python(results[i].by_device, return_numpy, fetches[i]);
  }
  return values;
}

// Bytes that a step on feeds of these shapes needs, before it has run.
py::dict memory_of_step(const CompiledProgram& compiled, Executor& executor, const py::dict& feed,
                        const std::vector<std::string>& fetches,
                        const std::shared_ptr<ScopeHandle>& scope) {
  const Program& program = *compiled.program();
  const std::shared_ptr<ScopeHandle> used = scope ? scope : global_scope_handle();
  const Feeds feeds = feeds_from_python(program, feed);
  PlanMemory plan;
  size_t fed = 0, parameters = 0;
  {
    const WithoutGil without_gil;
    plan =
        compiled.prepare(executor, feeds, fetches, {.scope = &used->get(), .poll = poll_signals});
  }
  for (const auto& [name, tensor] : feeds) fed += tensor.byte_size();
  for (const Var* var : program.global_block().vars()) {
    const Variable* held = var->persistable() ? used->get().find(var->name()) : nullptr;
    if (held && held->kind() == Kind::dense) parameters += held->tensor().byte_size();
  }
  return py::dict(py::arg("arena") = plan.arena, py::arg("live") = plan.live,
                  py::arg("scratch") = plan.scratch, py::arg("own") = plan.own,
                  py::arg("parameters") = parameters, py::arg("feeds") = fed,
                  py::arg("total") = plan.arena + plan.scratch + plan.own + parameters + fed,
                  py::arg("exact") = !plan.partly);
}

std::string text_of_pass_checks(const CompiledProgram& compiled, const py::dict& feed,
                                const std::shared_ptr<ScopeHandle>& scope, double tolerance) {
  const Feeds feeds = feeds_from_python(*compiled.program(), feed);
  const std::shared_ptr<ScopeHandle> used = scope ? scope : global_scope_handle();
  const WithoutGil without_gil;
  return to_text(compiled.check_passes(feeds, used->get(), tolerance, poll_signals));
}

}  // namespace

void bind_compiled_program(py::module_& m) {
  bind_strategies(m);
  m.def("allocated_bytes", &allocated_bytes);
  m.def("name_lookups", &name_lookups);  // tests count them
  m.def("default_places", [](const Place& like) { return default_places(like.kind); });
  py::class_<CompiledProgram>(m, "CompiledProgram")
      .def(py::init<std::shared_ptr<Program>, BuildStrategy>(), py::arg("program"),
           py::arg("build_strategy"))
      .def(
          "with_data_parallel",
          [](CompiledProgram& self, const std::string& loss_name,
             const std::optional<BuildStrategy>& build, const ExecutionStrategy& exec,
             const CompiledProgram* share_vars_from, const std::vector<Place>& places) {
            self.with_data_parallel({.loss_name = loss_name,
                                     .build_strategy = build,
                                     .exec_strategy = exec,
                                     .share_vars_from = share_vars_from,
                                     .places = places});
          },
          py::arg("loss_name"), py::arg("build_strategy"), py::arg("exec_strategy"),
          py::arg("share_vars_from"), py::arg("places"))
      .def("run", &run, py::arg("executor"), py::arg("feed"), py::arg("fetches"), py::arg("scope"),
           py::arg("return_numpy"), py::arg("return_merged"), py::arg("use_prune"),
           py::arg("merge"))
      .def("drop_temporaries",
           [](const CompiledProgram& self, Executor& executor) {
             executor.drop_temporaries(*self.program());
           })
      .def("arena_bytes", [](const CompiledProgram& self,
                             Executor& executor) { return executor.arena_bytes(*self.program()); })
      .def("explain", &CompiledProgram::explain, py::arg("ran_by") = nullptr)
      .def("memory", &memory_of_step, py::arg("executor"), py::arg("feed"), py::arg("fetches"),
           py::arg("scope"))
      .def("check_passes", &text_of_pass_checks, py::arg("feed"), py::arg("scope"),
           py::arg("tolerance"))
      .def_property_readonly("trains", &CompiledProgram::trains)
      .def("devices",
           [](const CompiledProgram& self, const Place& like) { return self.devices(like.kind); })
      .def_property_readonly("is_data_parallel", &CompiledProgram::is_data_parallel);
}

}  // namespace trireme::binding
