// Transpilers: distributed programs, memory_optimize, release_memory.
#include <pybind11/functional.h>

#include "comm/wait_ready.h"
#include "core/random.h"
#include "ir/distributed.h"
#include "python/binding/casters.h"
#include "python/binding/without_gil.h"
#include "transpiler/distribute.h"
#include "transpiler/memory_optimize.h"
#include "transpiler/slice.h"
#include "transpiler/sliced_files.h"

namespace trireme::binding {
namespace {

// A dispatcher written in Python.
class PythonDispatcher final : public PsDispatcher {
 public:
  PythonDispatcher(std::vector<std::string> endpoints, py::object object)
      : PsDispatcher(std::move(endpoints)), object_(std::move(object)) {}
  void reset() override { object_.attr("reset")(); }
  std::vector<std::string> dispatch(const std::vector<PlacedVar>& vars) override {
    return object_.attr("dispatch")(vars).cast<std::vector<std::string>>();
  }

 private:
  py::object object_;
};

// `split_method`: "RoundRobin", "HashName", or a class of Python's.
void set_split_method(DistributeTranspilerConfig& config, const py::object& method) {
  if (py::isinstance<py::str>(method)) {
    if (method.cast<std::string>() == "HashName") {
      config.split_method = [](std::vector<std::string> endpoints) {
        return std::make_unique<HashName>(std::move(endpoints));
      };
    }
    return;
  }
  config.split_method = [method](std::vector<std::string> endpoints) {
    py::object object = method(endpoints);
    return std::make_unique<PythonDispatcher>(std::move(endpoints), std::move(object));
  };
}

void print_line(const std::string& line) { py::print(line); }

py::tuple shape_tuple(const Shape& shape) { return py::tuple(py::cast(shape.to_vector())); }

void bind_config(py::module_& m) {
  using Config = DistributeTranspilerConfig;
  py::class_<Config>(m, "DistributeTranspilerConfig")
      .def(py::init<>())
      .def_readwrite("slice_var_up", &Config::slice_var_up)
      .def("set_split_method", &set_split_method)
      .def_readwrite("min_block_size", &Config::min_block_size)
      .def_readwrite("enable_dc_asgd", &Config::enable_dc_asgd)
      .def_readwrite("mode", &Config::mode)
      .def_readwrite("print_log", &Config::print_log)
      .def_readwrite("wait_port", &Config::wait_port)
      .def_readwrite("sync_mode", &Config::sync_mode)
      .def_readwrite("runtime_split_send_recv", &Config::runtime_split_send_recv)
      .def_readwrite("geo_sgd_mode", &Config::geo_sgd_mode)
      .def_readwrite("geo_sgd_need_push_nums", &Config::geo_sgd_need_push_nums)
      .def_readwrite("half_async", &Config::half_async)
      .def_readwrite("completely_not_async", &Config::completely_not_async)
      .def_readwrite("nccl_comm_num", &Config::nccl_comm_num)
      .def_readwrite("use_hierarchical_allreduce", &Config::use_hierarchical_allreduce)
      .def_readwrite("hierarchical_allreduce_inter_nranks",
                     &Config::hierarchical_allreduce_inter_nranks)
      .def_readwrite("collective_mode", &Config::collective_mode);
  py::class_<PlacedVar>(m, "PlacedVar")
      .def_readonly("name", &PlacedVar::name)
      .def_property_readonly("shape", [](const PlacedVar& v) { return shape_tuple(v.shape); })
      .def_readonly("dtype", &PlacedVar::dtype);
}

void bind_distribute(py::module_& m) {
  using T = DistributeTranspiler;
  py::class_<T>(m, "DistributeTranspiler")
      .def(py::init<const DistributeTranspilerConfig&>())
      .def("transpile",
           [](T& self, int trainer_id, std::shared_ptr<Program> program,
              std::shared_ptr<Program> startup_program, const std::string& pservers,
              std::variant<int, std::string, std::vector<std::string>> trainers, bool sync_mode,
              const std::string& current_endpoint) {
             self.transpile({.trainer_id = trainer_id,
                             .program = std::move(program),
                             .startup_program = std::move(startup_program),
                             .pservers = pservers,
                             .trainers = std::move(trainers),
                             .sync_mode = sync_mode,
                             .current_endpoint = current_endpoint,
                             .print = print_line});
           })
      .def("get_trainer_program", &T::get_trainer_program)
      .def("get_pserver_program", &T::get_pserver_program)
      .def("get_pserver_programs", &T::get_pserver_programs)
      .def("get_startup_program",
           [](const T& self, const std::string& endpoint, const Program* pserver_program,
              const Program* startup_program) {
             return self.get_startup_program(endpoint, pserver_program, startup_program);
           })
      .def("origin_startup_program",
           [](const T& self) {
             return std::const_pointer_cast<Program>(self.origin_startup_program());
           })
      .def("set_server_config", [](T& self, int send, int get, int prefetch) {
        self.set_server_config({.rpc_send_thread_num = send,
                                .rpc_get_thread_num = get,
                                .rpc_prefetch_thread_num = prefetch});
      });
}

// What a transpiler noted, as the underscored attributes that scripts read.
void bind_facts(py::module_& m) {
  py::class_<VarSlice>(m, "VarSlice")
      .def_property_readonly("origin_name", [](const VarSlice& s) { return s.origin.name; })
      .def_property_readonly("origin_shape",
                             [](const VarSlice& s) { return shape_tuple(s.origin.shape); })
      .def_property_readonly("slice_name", [](const VarSlice& s) { return s.slice.name; })
      .def_property_readonly("slice_shape",
                             [](const VarSlice& s) { return shape_tuple(s.slice.shape); })
      .def_property_readonly("dtype", [](const VarSlice& s) { return s.origin.dtype; })
      .def_property_readonly("lod_level", [](const VarSlice& s) { return s.origin.lod_level; })
      .def_property_readonly("persistable", [](const VarSlice& s) { return s.origin.persistable; })
      .def_readonly("is_slice", &VarSlice::is_slice)
      .def_readonly("block_id", &VarSlice::block_id)
      .def_readonly("offset", &VarSlice::offset)
      .def_property_readonly("vtype", [](const VarSlice& s) { return std::string(name_of(s.use)); })
      .def_readonly("endpoint", &VarSlice::endpoint);

  auto program =
      py::reinterpret_borrow<py::class_<Program, std::shared_ptr<Program>>>(m.attr("Program"));
  const auto facts = [](const Program& p) {
    static const DistributedFacts none;
    return p.distributed ? *p.distributed : none;
  };
  program
      .def_property_readonly("_is_distributed",
                             [=](const Program& p) { return facts(p).mode == "pserver"; })
      .def_property_readonly("_is_chief", [=](const Program& p) { return facts(p).is_chief; })
      .def_property_readonly("_endpoints", [=](const Program& p) { return facts(p).endpoints; })
      .def_property_readonly("_ps_endpoint",
                             [=](const Program& p) -> std::optional<std::string> {
                               if (facts(p).mode != "pserver") return std::nullopt;
                               return facts(p).ps_endpoint;
                             })
      .def_property_readonly("_distributed_lookup_table",
                             [=](const Program& p) -> std::optional<std::string> {
                               if (facts(p).tables.empty()) return std::nullopt;
                               return facts(p).tables.front();
                             })
      .def_property_readonly("_slices_on_pservers",
                             [=](const Program& p) { return facts(p).slices; })
      .def_property_readonly("_trainers_endpoints",
                             [=](const Program& p) { return facts(p).trainer_endpoints; })
      .def_property_readonly("_nccl_comm_num",
                             [=](const Program& p) { return facts(p).nccl_comm_num; })
      .def_property_readonly("_use_hierarchical_allreduce",
                             [=](const Program& p) { return facts(p).use_hierarchical_allreduce; })
      .def_property_readonly("_hierarchical_allreduce_inter_nranks", [=](const Program& p) {
        return facts(p).hierarchical_allreduce_inter_nranks;
      });
}

}  // namespace

void bind_transpilers(py::module_& m) {
  bind_config(m);
  bind_distribute(m);
  bind_facts(m);

  m.def("name_hash", [](const std::string& name) { return stream_of(name); });
  m.def("slice_variable",
        [](const std::vector<const Var*>& vars, int64_t slice_count, int64_t min_block_size) {
          std::vector<SlicedVar> list;
          for (const Var* var : vars) list.push_back({var->name(), var->shape()});
          std::vector<std::string> blocks;
          for (const VarBlock& block : slice_variable(list, slice_count, min_block_size)) {
            blocks.push_back(block.to_string());
          }
          return blocks;
        });
  m.def("wait_server_ready", [](const std::vector<std::string>& endpoints, double seconds) {
    const WithoutGil without_gil;
    wait_server_ready(endpoints, std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)),
                      poll_signals);
  });
  m.attr("ready_limit_seconds") = static_cast<int64_t>(kReadyLimit.count());
  m.def("memory_optimize", [](Program& program, const std::set<std::string>& skip_opt_set,
                              bool print_log, int level, bool skip_grads) {
    memory_optimize(program, {.skip_opt_set = skip_opt_set,
                              .print_log = print_log,
                              .level = level,
                              .skip_grads = skip_grads,
                              .print = print_line});
  });
  m.def("release_memory", &release_memory);
  m.def("remote_names", &remote_names);
  m.def("sliced_save_program", &sliced_save_program);
  m.def("sliced_load_program", &sliced_load_program);
}

}  // namespace trireme::binding
