// Gradient clips; Python may derive its own.
#include "layers/clip.h"

#include <pybind11/functional.h>

#include "python/binding/casters.h"
#include "python/binding/kept.h"

namespace trireme::binding {
namespace {

class PythonClip final : public GradientClip {
 public:
  ParamGrads operator()(const ParamGrads& params_grads) override {
    PYBIND11_OVERRIDE_PURE_NAME(ParamGrads, GradientClip, "__call__", operator(), params_grads);
  }
  std::string describe() const override { return "a gradient clip of the user's"; }
};

template <class Clip>
std::shared_ptr<Clip> with_need_clip(std::shared_ptr<Clip> clip, const py::object& need_clip) {
  if (need_clip.is_none()) return clip;
  clip->need_clip = [ask = need_clip.cast<std::function<bool(Var*)>>()](const Var& var) {
    return ask(const_cast<Var*>(&var));
  };
  return clip;
}

}  // namespace

void bind_clips(py::module_& m) {
  using Shared = std::shared_ptr<GradientClip>;
  const py::object none = py::none();
  py::class_<GradientClip, PythonClip, Shared>(m, "GradientClipBase", py::dynamic_attr())
      .def(py::init<>())
      .def("__call__",
           [](GradientClip& self, const ParamGrads& params_grads) {
             const LineScope line(python_line());
             return self(params_grads);
           })
      .def("__str__", &GradientClip::describe);
  py::class_<GradientClipByValue, GradientClip, std::shared_ptr<GradientClipByValue>>(
      m, "GradientClipByValue")
      .def(py::init([](double max, std::optional<double> min, const py::object& need_clip) {
             return with_need_clip(std::make_shared<GradientClipByValue>(max, min), need_clip);
           }),
           py::arg("max"), py::arg("min") = none, py::arg("need_clip") = none);
  py::class_<GradientClipByNorm, GradientClip, std::shared_ptr<GradientClipByNorm>>(
      m, "GradientClipByNorm")
      .def(py::init([](double clip_norm, const py::object& need_clip) {
             return with_need_clip(std::make_shared<GradientClipByNorm>(clip_norm), need_clip);
           }),
           py::arg("clip_norm"), py::arg("need_clip") = none);
  py::class_<GradientClipByGlobalNorm, GradientClip, std::shared_ptr<GradientClipByGlobalNorm>>(
      m, "GradientClipByGlobalNorm")
      .def(py::init(
               [](double clip_norm, const std::string& group_name, const py::object& need_clip) {
                 return with_need_clip(
                     std::make_shared<GradientClipByGlobalNorm>(clip_norm, group_name), need_clip);
               }),
           py::arg("clip_norm"), py::arg("group_name") = "default_group",
           py::arg("need_clip") = none);

  m.def(
      "set_gradient_clip",
      [](const py::object& clip, const std::vector<std::string>& params, Program* program) {
        set_gradient_clip(kept<GradientClip>(clip), params, program, python_line());
      },
      py::arg("clip"), py::arg("params"), py::arg("program"));
  m.def("append_gradient_clip_ops", [](const ParamGrads& params_grads) {
    const LineScope line(python_line());
    return append_gradient_clip_ops(params_grads);
  });
  m.def("error_clip_callback", [](Block& block, Op& op) { error_clip_callback(block, op); });
}

}  // namespace trireme::binding
