// Program: blocks, seeds, clones, printing and bytes.
#include "python/binding/binding.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

py::list blocks_of(const Program& program) {
  py::list blocks;
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    blocks.append(py::cast(&program.block(static_cast<int>(i))));
  }
  return blocks;
}

}  // namespace

void bind_programs(py::module_& m) {
  py::class_<Program, std::shared_ptr<Program>>(m, "Program", py::dynamic_attr())
      .def(py::init(&Program::create))
      .def("global_block", [](const Program& p) { return &p.global_block(); })
      .def(
          "block", [](const Program& p, int index) { return &p.block(index); }, py::arg("index"))
      .def("current_block", [](const Program& p) { return &p.current_block(); })
      .def_property("current_block_idx", &Program::current_index, &Program::set_current)
      .def_property_readonly("blocks", &blocks_of)
      .def_property_readonly("num_blocks", &Program::num_blocks)
      .def_property("_seed", &Program::seed, &Program::set_seed)
      .def_static("_set_default_seed", &Program::set_default_seed)
      .def_property_readonly("_id", &Program::id)
      .def_property_readonly("_version", &Program::version)
      .def("all_parameters", &Program::parameters)
      .def(
          "_create_block", [](Program& p, int parent) { return &p.create_block(parent); },
          py::arg("parent_idx") = -2)
      .def("_rollback", &Program::rollback)
      .def_readwrite("_current_role", &Program::role)
      .def_readwrite("_role_vars", &Program::role_vars)
      .def_readwrite("_appending_grad_times", &Program::backward_count)
      .def_readonly("_is_mem_optimized", &Program::memory_optimized)
      .def_readwrite("_scheduled_rate", &Program::scheduled_rate)
      .def_readwrite("_desc_version", &Program::desc_version)
      .def("_clone", [](const Program& p, bool for_test) { return clone(p, for_test); })
      .def("_pruned",
           [](const Program& p, const std::vector<std::string>& feeds,
              const std::vector<std::string>& targets) { return prune(p, feeds, targets); })
      .def("_inference_copy",
           [](const Program& p, bool prune_read_op) { return inference_copy(p, prune_read_op); })
      .def("_serialize", [](const Program& p) { return py::bytes(serialize(p)); })
      .def_static(
          "_parse",
          [](const py::bytes& bytes) { return parse_program(bytes.cast<std::string_view>()); })
      .def("_text", [](const Program& p) { return to_text(p); })
      .def("_proto_text", [](const Program& p) { return to_proto_text(p); });
}

}  // namespace trireme::binding
