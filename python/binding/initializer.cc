// Initializers; Python may derive its own.
#include "layers/initializer.h"

#include "python/binding/casters.h"
#include "python/binding/kept.h"

namespace trireme::binding {
namespace {

namespace init = initializer;

class PythonInitializer final : public Initializer {
 public:
  void operator()(Var& var, Block& startup_block) override {
    PYBIND11_OVERRIDE_PURE_NAME(void, Initializer, "__call__", operator(), &var, &startup_block);
  }
};

}  // namespace

void bind_initializers(py::module_& m) {
  using Shared = std::shared_ptr<Initializer>;
  const py::object none = py::none();
  py::class_<Initializer, PythonInitializer, Shared>(m, "Initializer", py::dynamic_attr())
      .def(py::init<>())
      .def(
          "__call__",
          [](Initializer& self, Var& var, Block& block) {
            const LineScope line(python_line());
            self(var, block);
            return block.size()
                       ? &block.op(defaults().style == Style::static_2_4 ? block.size() - 1 : 0)
                       : nullptr;
          },
          py::arg("var"), py::arg("block"));
  py::class_<init::Constant, Initializer, std::shared_ptr<init::Constant>>(m, "ConstantInitializer")
      .def(py::init<double, bool>(), py::arg("value") = 0.0, py::arg("force_cpu") = false);
  py::class_<init::Uniform, Initializer, std::shared_ptr<init::Uniform>>(m, "UniformInitializer")
      .def(py::init(
               [](double low, double high, int seed, int diag_num, int diag_step, double diag_val) {
                 return std::make_shared<init::Uniform>(
                     init::UniformOptions{low, high, seed, diag_num, diag_step, diag_val});
               }),
           py::arg("low") = -1.0, py::arg("high") = 1.0, py::arg("seed") = 0,
           py::arg("diag_num") = 0, py::arg("diag_step") = 0, py::arg("diag_val") = 1.0);
  py::class_<init::Normal, Initializer, std::shared_ptr<init::Normal>>(m, "NormalInitializer")
      .def(py::init<double, double, int>(), py::arg("loc") = 0.0, py::arg("scale") = 1.0,
           py::arg("seed") = 0);
  py::class_<init::TruncatedNormal, Initializer, std::shared_ptr<init::TruncatedNormal>>(
      m, "TruncatedNormalInitializer")
      .def(py::init<double, double, int>(), py::arg("loc") = 0.0, py::arg("scale") = 1.0,
           py::arg("seed") = 0);
  py::class_<init::Xavier, Initializer, std::shared_ptr<init::Xavier>>(m, "XavierInitializer")
      .def(py::init([](bool uniform, std::optional<double> fan_in, std::optional<double> fan_out,
                       int seed) {
             return std::make_shared<init::Xavier>(
                 init::XavierOptions{uniform, fan_in, fan_out, seed});
           }),
           py::arg("uniform") = true, py::arg("fan_in") = none, py::arg("fan_out") = none,
           py::arg("seed") = 0);
  py::class_<init::Msra, Initializer, std::shared_ptr<init::Msra>>(m, "MSRAInitializer")
      .def(py::init([](bool uniform, std::optional<double> fan_in, int seed) {
             return std::make_shared<init::Msra>(init::MsraOptions{uniform, fan_in, seed});
           }),
           py::arg("uniform") = true, py::arg("fan_in") = none, py::arg("seed") = 0);
  py::class_<init::Bilinear, Initializer, std::shared_ptr<init::Bilinear>>(m, "BilinearInitializer")
      .def(py::init<>());
  py::class_<init::FromTensor, Initializer, std::shared_ptr<init::FromTensor>>(
      m, "NumpyArrayInitializer")
      .def(py::init([](const py::object& value) {
             return std::make_shared<init::FromTensor>(from_numpy(value).clone());
           }),
           py::arg("value"));
}

}  // namespace trireme::binding
