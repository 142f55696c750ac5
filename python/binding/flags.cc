// FLAGS_ by name.
#include "core/flags.h"

#include "python/binding/binding.h"

namespace trireme::binding {

void bind_flags(py::module_& m) {
  m.def("is_flag", [](const std::string& name) { return is_flag(name); });
  m.def("get_flag", [](const std::string& name) { return get_flag(name); });
  m.def("set_flag", [](const std::string& name, const FlagValue& value) { set_flag(name, value); });
  m.def("list_flags", [] {
    py::list rows;
    for (const Flag& flag : list_flags()) {
      rows.append(
          py::dict(py::arg("name") = "FLAGS_" + flag.name, py::arg("default") = flag.default_value,
                   py::arg("use") = std::string(name_of(flag.use)), py::arg("why") = flag.why));
    }
    return rows;
  });
  m.def("read_flags_from_environment", &read_flags_from_environment);
  // C's environment and os.environ are two: what the one got, the other is told.
  m.def("cpu_num", [] {
    const int count = cpu_num();
    py::module_::import("os").attr("environ").attr("setdefault")("CPU_NUM", std::to_string(count));
    return count;
  });
}

}  // namespace trireme::binding
