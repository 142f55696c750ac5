// Python functions as ops: registered by number, called with the GIL held.
#include "ops/host/py_func.h"

#include "python/binding/binding.h"

namespace trireme::binding {
namespace {

py::object operand(const Variable* variable) {
  if (!variable || variable->kind() != Kind::dense || !variable->tensor().initialized()) {
    return py::none();
  }
  // A copy: the function may keep what it gets, and the plan uses the memory again.
  return py::cast(own_tensor(variable->tensor().clone()));
}

Tensor result(py::handle value) {
  if (py::isinstance<TensorHandle>(value)) return value.cast<TensorHandle&>().get().clone();
  return from_numpy(value).clone();
}

}  // namespace

// call(inputs, number of outputs) returns one LoDTensor, array or None for each output. What it
// raises ends the run and reaches the caller of the run as the same object.
void bind_py_func(py::module_& m) {
  m.def("register_py_func", [](const py::object& call) {
    // Functions are registered for good; nothing lets go of them after Python has ended.
    const py::handle kept = py::object(call).release();
    return register_py_func(
        [kept](const std::vector<const Variable*>& ins, const std::vector<Variable*>& outs) {
          const py::gil_scoped_acquire gil;
          py::list inputs;
          for (const Variable* in : ins) inputs.append(operand(in));
          const py::list results = kept(inputs, outs.size());
          for (size_t i = 0; i < outs.size(); ++i) {
            if (outs[i] && !results[i].is_none()) outs[i]->tensor() = result(results[i]);
          }
        });
  });
}

}  // namespace trireme::binding
