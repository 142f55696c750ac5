// Places: CPUPlace, CUDAPlace and CUDAPinnedPlace are three faces of one small value.
#include "core/place.h"

#include "core/device.h"
#include "core/text.h"
#include "python/binding/binding.h"

namespace trireme::binding {
namespace {

// Python tells places apart by class.
struct CpuPlace : Place {};
struct CudaPlace : Place {};
struct CudaPinnedPlace : Place {};

bool same(const Place& a, const py::object& b) {
  return py::isinstance<Place>(b) && a == b.cast<const Place&>();
}

}  // namespace

void bind_places(py::module_& m) {
  py::class_<Place>(m, "Place")
      .def(py::init<>())
      .def("set_place", [](Place& self, const Place& other) { self = other; })
      .def("is_cpu_place", [](const Place& p) { return p.kind == DeviceKind::cpu; })
      .def("is_gpu_place", [](const Place& p) { return p.kind == DeviceKind::cuda; })
      .def("is_xpu_place", [](const Place&) { return false; })
      .def("is_cuda_pinned_place", [](const Place& p) { return p.kind == DeviceKind::cuda_pinned; })
      .def("gpu_device_id", [](const Place& p) { return p.id; })
      .def("get_device_id", [](const Place& p) { return p.id; })
      .def("_type", [](const Place& p) { return static_cast<int>(p.kind); })
      .def("_equals", &same)
      .def("__eq__", &same)
      .def("__ne__", [](const Place& a, const py::object& b) { return !same(a, b); })
      .def("__hash__", [](const Place& p) { return static_cast<int>(p.kind) * 1024 + p.id; })
      .def("__repr__", [](const Place& p) { return cat("Place(", to_string(p), ")"); });

  py::class_<CpuPlace, Place>(m, "CPUPlace")
      .def(py::init([] { return CpuPlace{cpu_place()}; }))
      .def("__repr__", [](const CpuPlace&) { return "CPUPlace"; });
  m.def("gpu_count", [] { return device_count(DeviceKind::cuda); });
  py::class_<CudaPlace, Place>(m, "CUDAPlace")
      .def(py::init([](int id) {
             if (id < 0) {
               throw Error(cat("the device number of CUDAPlace is ", id))
                   .fix("devices are numbered from 0");
             }
             return CudaPlace{cuda_place(id)};
           }),
           py::arg("id"))
      .def("__repr__", [](const CudaPlace& p) { return cat("CUDAPlace(", p.id, ")"); });
  py::class_<CudaPinnedPlace, Place>(m, "CUDAPinnedPlace")
      .def(py::init([] {
        return CudaPinnedPlace{{DeviceKind::cuda_pinned, 0}};
      }))
      .def("__repr__", [](const CudaPinnedPlace&) { return "CUDAPinnedPlace"; });
}

}  // namespace trireme::binding
