// The default programs, and the name scope, device, role and style that new ops get.
#include "layers/defaults.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

// A guard that Python opens and closes itself.
template <class Guard>
class Opened {
 public:
  template <class... Args>
  explicit Opened(Args&&... args) : guard_(std::make_unique<Guard>(std::forward<Args>(args)...)) {}
  void close() { guard_.reset(); }

 private:
  std::unique_ptr<Guard> guard_;
};

}  // namespace

void bind_guards(py::module_& m) {
  m.def("default_main_program", [] { return defaults().main; });
  m.def("default_startup_program", [] { return defaults().startup; });
  m.def("switch_main_program", &switch_main_program);
  m.def("switch_startup_program", &switch_startup_program);
  m.def("get_default_dtype", [] { return defaults().dtype; });
  m.def("set_default_dtype", [](DType dtype) { defaults().dtype = dtype; });
  m.def("current_name_scope", &NameScope::current);
  m.def("current_device", &DeviceGuard::current);
  // True: the habits of paddle.static 2.4, where they differ from fluid 1.8's. Returns what was.
  m.def("use_static_style", [](bool on) {
    const Style before = defaults().style;
    defaults().style = on ? Style::static_2_4 : Style::fluid_1_8;
    return before == Style::static_2_4;
  });

  py::class_<Opened<NameScope>>(m, "NameScope")
      .def(py::init<std::string_view>())
      .def("close", &Opened<NameScope>::close);
  py::class_<Opened<DeviceGuard>>(m, "DeviceGuard")
      .def(py::init<std::string_view>())
      .def("close", &Opened<DeviceGuard>::close);
  py::class_<Opened<RoleGuard>>(m, "RoleGuard")
      .def(py::init<Program&, int, std::vector<std::string>>())
      .def("close", &Opened<RoleGuard>::close);
}

}  // namespace trireme::binding
