// Weight decay; Python may derive its own.
#include "layers/regularizer.h"

#include "python/binding/kept.h"

namespace trireme::binding {
namespace {

class PythonRegularizer final : public Regularizer {
 public:
  Var* operator()(Var& param, Var& grad, Block& block) override {
    PYBIND11_OVERRIDE_PURE_NAME(Var*, Regularizer, "__call__", operator(), &param, &grad, &block);
  }
  std::string describe() const override { return "a regularizer of the user's"; }
};

}  // namespace

void bind_regularizers(py::module_& m) {
  using Shared = std::shared_ptr<Regularizer>;
  py::class_<Regularizer, PythonRegularizer, Shared>(m, "WeightDecayRegularizer",
                                                     py::dynamic_attr())
      .def(py::init<>())
      .def(
          "__call__",
          [](Regularizer& self, Var& param, Var& grad, Block& block) {
            const LineScope line(python_line());
            return self(param, grad, block);
          },
          py::arg("param"), py::arg("grad"), py::arg("block"))
      .def("__str__", &Regularizer::describe);
  py::class_<L2Decay, Regularizer, std::shared_ptr<L2Decay>>(m, "L2DecayRegularizer")
      .def(py::init<double>(), py::arg("regularization_coeff") = 0.0)
      .def_property_readonly("_regularization_coeff", &L2Decay::coeff);
  py::class_<L1Decay, Regularizer, std::shared_ptr<L1Decay>>(m, "L1DecayRegularizer")
      .def(py::init<double>(), py::arg("regularization_coeff") = 0.0)
      .def_property_readonly("_regularization_coeff", &L1Decay::coeff);

  m.def(
      "append_regularization_ops",
      [](const ParamGrads& params_grads, const py::object& regularizer) {
        const LineScope line(python_line());
        return append_regularization_ops(params_grads, kept<Regularizer>(regularizer));
      },
      py::arg("parameters_and_grads"), py::arg("regularization") = py::none());

  auto variable = py::reinterpret_borrow<py::class_<Var, InProgram<Var>>>(m.attr("Variable"));
  variable.def_property(
      "regularizer",
      [](const Var& v) -> Shared {
        if (v.parameter()) return v.parameter()->regularizer;
        throw py::attribute_error("variable " + v.name() +
                                  " is no parameter and has no regularizer");
      },
      [](Var& v, const py::object& value) {
        v.edit_parameter().regularizer = kept<Regularizer>(value);
      });
}

}  // namespace trireme::binding
