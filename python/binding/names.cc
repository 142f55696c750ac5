// unique_name: generators of names and which one is current.
#include "ir/unique_name.h"

#include "python/binding/binding.h"

namespace trireme::binding {

void bind_names(py::module_& m) {
  py::class_<UniqueNames, std::shared_ptr<UniqueNames>>(m, "UniqueNameGenerator")
      .def(py::init<std::string>(), py::arg("prefix") = "")
      .def(
          "__call__",
          [](UniqueNames& names, const std::string& key) { return names.generate(key); },
          py::arg("key"));
  m.def(
      "generate_name", [](const std::string& key) { return unique_names().generate(key); },
      py::arg("key"));
  m.def("switch_names", &swap_unique_names, py::arg("names") = py::none());
}

}  // namespace trireme::binding
