// The profiler's switch, its table and its timeline.
#include "runtime/profiler.h"

#include "python/binding/binding.h"

namespace trireme::binding {

void bind_profiler(py::module_& m) {
  py::enum_<ProfileOrder>(m, "ProfileOrder")
      .value("first_end", ProfileOrder::first_end)
      .value("calls", ProfileOrder::calls)
      .value("total", ProfileOrder::total)
      .value("max", ProfileOrder::max)
      .value("min", ProfileOrder::min)
      .value("average", ProfileOrder::average);
  m.def("profiling_on", &profiling_on);
  m.def("start_profiling", &start_profiling);
  m.def("reset_profiling", &reset_profiling);
  // The table and the timeline of what was recorded.
  m.def("stop_profiling", [](ProfileOrder order) {
    const std::vector<ProfileEvent> events = stop_profiling();
    return std::pair(profile_table(events, order), profile_timeline(events));
  });
}

}  // namespace trireme::binding
