// FLAGS_ by name.
#include "core/flags.h"

#include "python/binding/binding.h"

namespace trireme::binding {

void bind_flags(py::module_& m) {
  m.def("is_flag", [](const std::string& name) { return is_flag(name); });
  m.def("get_flag", [](const std::string& name) { return get_flag(name); });
  m.def("set_flag", [](const std::string& name, const FlagValue& value) { set_flag(name, value); });
  m.def("flag_names", [] {
    std::vector<std::string> names;
    for (const Flag& flag : list_flags()) names.push_back("FLAGS_" + flag.name);
    return names;
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
