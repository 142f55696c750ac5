// Steps run in several ways, and what differs between them.
#include "runtime/certificate.h"

#include "compile/pipeline.h"
#include "python/binding/binding.h"
#include "python/binding/without_gil.h"
#include "runtime/step_copies.h"

namespace trireme::binding {
namespace {

StepValues values_of_step(const std::shared_ptr<Program>& program, const py::dict& feed,
                          const std::shared_ptr<ScopeHandle>& scope, const Place& place,
                          int devices, bool sync_batch_norm, bool tree, int threads,
                          std::vector<std::string> passes_off, int steps,
                          std::vector<std::string> fetches) {
  const Feeds feeds = feeds_from_python(*program, feed);
  const RunWay way{.place = place,
                   .devices = devices,
                   .sync_batch_norm = sync_batch_norm,
                   .tree = tree,
                   .threads = threads,
                   .passes_off = std::move(passes_off),
                   .steps = steps,
                   .fetches = std::move(fetches)};
  const WithoutGil without_gil;
  return StepValues(*program, feeds, scope->get(), way, poll_signals);
}

py::dict compared(const std::shared_ptr<Program>& program, const StepValues& a, const StepValues& b,
                  double bound) {
  const Comparison found = compare(*program, a, b, bound);
  py::dict result;
  result["compared"] = found.compared;
  result["equal"] = found.equal;
  result["largest"] = found.largest;
  result["variable"] = found.variable;
  result["left_out"] = found.left_out;
  if (found.op.empty()) return result;
  result["op"] = found.op;
  result["differs"] = found.differs;
  result["difference"] = found.difference;
  if (found.line.known()) result["line"] = found.line.file + ":" + std::to_string(found.line.line);
  return result;
}

}  // namespace

void bind_certificate(py::module_& m) {
  m.def("passes_that_round", &passes_that_round);
  m.def(
      "copied_scope",
      [](const std::shared_ptr<ScopeHandle>& scope) {
        auto copy = std::make_shared<ScopeHandle>();
        copy_scope(scope->get(), copy->get());
        return copy;
      },
      py::arg("scope"));
  py::class_<StepValues>(m, "StepValues")
      .def(py::init(&values_of_step), py::arg("program"), py::arg("feed"), py::arg("scope"),
           py::arg("place"), py::arg("devices") = 1, py::arg("sync_batch_norm") = false,
           py::arg("tree") = false, py::arg("threads") = 0,
           py::arg("passes_off") = std::vector<std::string>(), py::arg("steps") = 1,
           py::arg("fetches") = std::vector<std::string>())
      .def_static(
          "given",
          [](const std::shared_ptr<Program>& program, const py::dict& values) {
            return StepValues(feeds_from_python(*program, values));
          },
          py::arg("program"), py::arg("values"));
  m.def("compare_steps", &compared, py::arg("program"), py::arg("a"), py::arg("b"),
        py::arg("bound"));
}

}  // namespace trireme::binding
