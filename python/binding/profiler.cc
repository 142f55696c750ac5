// The profiler's switch, its table and its timeline; and reports of programs that ran.
#include "runtime/profiler.h"

#include "core/progress.h"
#include "python/binding/binding.h"
#include "runtime/compiled_program.h"

namespace trireme::binding {

void bind_certificate(py::module_& m);  // certificate.cc

namespace {

// Python hands it on and looks at none of it.
struct Events {
  std::vector<ProfileEvent> all;
};

ReportParts parts_of(const std::string& process, const Events& events, const std::string& machine) {
  return {.process = process, .events = events.all, .machine = machine};
}

}  // namespace

void bind_profiler(py::module_& m) {
  bind_certificate(m);
  py::enum_<ProfileOrder>(m, "ProfileOrder")
      .value("first_end", ProfileOrder::first_end)
      .value("calls", ProfileOrder::calls)
      .value("total", ProfileOrder::total)
      .value("max", ProfileOrder::max)
      .value("min", ProfileOrder::min)
      .value("average", ProfileOrder::average);
  py::class_<Events>(m, "ProfileEvents")
      .def(py::init<>())
      .def("__len__", [](const Events& events) { return events.all.size(); })
      .def("extend",
           [](Events& events, const Events& more) {
             events.all.insert(events.all.end(), more.all.begin(), more.all.end());
           })
      .def(
          "table",
          [](const Events& events, ProfileOrder order) { return profile_table(events.all, order); },
          py::arg("order"))
      .def("shares",
           [](const Events& events) {
             const TimeShares shares = time_shares(events.all);
             return py::dict(py::arg("compute") = shares.compute,
                             py::arg("communication") = shares.communication,
                             py::arg("wait") = shares.wait);
           })
      .def("timeline", [](const Events& events) { return profile_timeline(events.all); });
  // listener(work, at, done, total), or None.
  m.def(
      "set_progress_listener",
      [](const py::object& listener) {
        if (listener.is_none()) return set_progress_listener(nullptr);
        set_progress_listener([held = new py::object(listener)](const ProgressNote& note) {
          const py::gil_scoped_acquire gil;  // never freed: the process may end without the GIL
          (*held)(note.work, note.at, note.done, note.total);
        });
      },
      py::arg("listener").none(true));
  m.def("profiling_on", &profiling_on);
  m.def("start_profiling", &start_profiling);
  m.def("reset_profiling", &reset_profiling);
  m.def("stop_profiling", [] { return Events{stop_profiling()}; });
  m.def(
      "report_of",
      [](const std::shared_ptr<Program>& program, const Executor& executor,
         const std::string& process, const Events& events, const std::string& machine) {
        return executor.json(*program, parts_of(process, events, machine));
      },
      py::arg("program"), py::arg("executor"), py::arg("process"), py::arg("events"),
      py::arg("machine"));
  m.def(
      "report_of_compiled",
      [](const CompiledProgram& program, const Executor& executor, const std::string& process,
         const Events& events, const std::string& machine) {
        return program.json(executor, parts_of(process, events, machine));
      },
      py::arg("program"), py::arg("executor"), py::arg("process"), py::arg("events"),
      py::arg("machine"));
}

}  // namespace trireme::binding
