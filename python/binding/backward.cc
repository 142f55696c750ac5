// append_backward and gradients.
#include "ir/backward.h"

#include <pybind11/functional.h>

#include "python/binding/binding.h"

namespace trireme::binding {
namespace {

ParamGrads backward(Var& loss, const std::optional<std::vector<std::string>>& parameter_list,
                    const std::set<std::string>& no_grad,
                    const std::vector<std::string>& checkpoints,
                    const std::vector<std::function<void(Block*, Op*)>>& callbacks) {
  BackwardOptions options;
  options.only_listed = parameter_list.has_value();
  if (parameter_list) options.parameter_list = *parameter_list;
  options.no_grad = no_grad;
  options.checkpoints = checkpoints;
  for (const auto& callback : callbacks) {
    options.callbacks.push_back([callback](Block& block, Op& op) { callback(&block, &op); });
  }
  const LineScope line(python_line());
  return append_backward(loss, options);
}

}  // namespace

void bind_backward(py::module_& m) {
  m.def("append_backward", &backward, py::arg("loss"), py::arg("parameter_list"),
        py::arg("no_grad"), py::arg("checkpoints"), py::arg("callbacks"));
  m.def(
      "gradients",
      [](const std::vector<Var*>& targets, const std::vector<Var*>& inputs,
         const std::vector<Var*>& target_gradients, const std::set<std::string>& no_grad) {
        const LineScope line(python_line());
        return gradients(targets, inputs, target_gradients, no_grad);
      },
      py::arg("targets"), py::arg("inputs"), py::arg("target_gradients"), py::arg("no_grad"));
}

}  // namespace trireme::binding
