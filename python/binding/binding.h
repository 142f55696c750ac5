// What the binding's files share: handles that keep their owners alive, and the list of parts.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/scope.h"
#include "ir/program.h"
#include "runtime/executor.h"

namespace py = pybind11;

namespace trireme::binding {

// Blocks, ops and variables belong to their program; a handle of one keeps the program alive.
inline Program& program_of(const Var& var) { return var.block().program(); }
inline Program& program_of(const Op& op) { return op.block().program(); }
inline Program& program_of(const Block& block) { return block.program(); }

template <class T>
class InProgram {
 public:
  InProgram() = default;
  explicit InProgram(T* thing) : thing_(thing) {
    if (thing) program_ = program_of(*thing).shared_from_this();
  }
  T* get() const { return thing_; }

 private:
  T* thing_ = nullptr;
  std::shared_ptr<Program> program_;
};

// A scope made in Python, or the child of one. A child dies with drop_kids(); what still refers to
// it then gets an error.
class ScopeHandle : public std::enable_shared_from_this<ScopeHandle> {
 public:
  ScopeHandle() : owned_(std::make_unique<Scope>()), scope_(owned_.get()) {}
  explicit ScopeHandle(Scope& lives_elsewhere) : scope_(&lives_elsewhere) {}

  Scope& get() const;
  std::shared_ptr<ScopeHandle> new_scope();
  void drop_kids();

 private:
  void die();

  std::unique_ptr<Scope> owned_;
  Scope* scope_;
  std::shared_ptr<ScopeHandle> parent_;
  std::vector<std::weak_ptr<ScopeHandle>> kids_;
};

std::shared_ptr<ScopeHandle> global_scope_handle();

// A slot of a scope, found by name at every use: erasing it makes later uses errors, not crashes.
struct SlotHandle {
  std::shared_ptr<ScopeHandle> scope;
  std::string name;
  Variable& get() const;
};

// Something of a slot, or something of Python's own, found anew at every use: what a slot holds may
// be replaced while Python looks at it.
template <class T>
class Handle {
 public:
  Handle() : Handle(std::make_shared<T>()) {}
  explicit Handle(std::shared_ptr<T> own) : find_([own]() -> T& { return *own; }) {}
  explicit Handle(std::function<T&()> find) : find_(std::move(find)) {}
  T& get() const { return find_(); }

 private:
  std::function<T&()> find_;
};
using TensorHandle = Handle<Tensor>;      // LoDTensor
using RowsHandle = Handle<SelectedRows>;  // SelectedRows
using ArrayHandle = Handle<TensorArray>;  // LoDTensorArray

inline TensorHandle own_tensor(Tensor tensor) {
  return TensorHandle(std::make_shared<Tensor>(std::move(tensor)));
}

// numpy at the edge.
// Shares the host's memory, and the array keeps the buffer alive; other memory is copied.
py::object to_numpy(const Tensor& tensor);
Tensor from_numpy(py::handle array);  // shares memory where the layout allows it
Feeds feeds_from_python(const Program& program, const py::dict& feed);
void poll_signals();  // raises KeyboardInterrupt when Ctrl-C was pressed
py::object fetched_to_python(Variable value, bool return_numpy, const std::string& name);
py::list fetches_to_python(std::vector<Variable>& results, bool return_numpy,
                           const std::vector<std::string>& fetches);

// The innermost Python frame outside the package; unknown when there is none.
SourceLine python_line();

// Attributes, guided by the op table where it knows the op and the attribute.
Attribute attribute_from_python(py::handle value, const std::string& op, const std::string& name);
py::object attribute_to_python(const Attribute& value, const Program& program);
Attrs attrs_from_python(const std::string& op, const py::dict& attrs);
Slots slots_from_python(const py::dict& slots, const char* what);

void bind_errors(py::module_& m);
void bind_lines(py::module_& m);
void bind_types(py::module_& m);
void bind_places(py::module_& m);
void bind_tensors(py::module_& m);
void bind_scopes(py::module_& m);
void bind_variables(py::module_& m);
void bind_ops(py::module_& m);
void bind_blocks(py::module_& m);
void bind_programs(py::module_& m);
void bind_names(py::module_& m);
void bind_docstrings(py::module_& m);
void bind_guards(py::module_& m);
void bind_backward(py::module_& m);
void bind_executor(py::module_& m);
void bind_repeated_run(py::module_& m);
void bind_compiled_program(py::module_& m);
void bind_compiled_file(py::module_& m);
void bind_flags(py::module_& m);
void bind_profiler(py::module_& m);
void bind_registry(py::module_& m);
void bind_param_attrs(py::module_& m);
void bind_initializers(py::module_& m);
void bind_regularizers(py::module_& m);
void bind_clips(py::module_& m);
void bind_layers_generic(py::module_& m);
void bind_layers_nn(py::module_& m);
void bind_layers_tensor(py::module_& m);
void bind_layers_loss(py::module_& m);
void bind_layers_sequence(py::module_& m);
void bind_layers_convolution(py::module_& m);
void bind_layers_structured(py::module_& m);
void bind_py_func(py::module_& m);
void bind_layers_schedule(py::module_& m);
void bind_layers_control(py::module_& m);
void bind_layers_array(py::module_& m);
void bind_layers_step_rnn(py::module_& m);
void bind_layers_host(py::module_& m);
void bind_layers_decode(py::module_& m);
void bind_layers_cell(py::module_& m);
void bind_layers_remote(py::module_& m);
void bind_mixed_precision(py::module_& m);
void bind_nets(py::module_& m);
void bind_optimizers(py::module_& m);
void bind_adaptive_optimizers(py::module_& m);
void bind_optimizers_around(py::module_& m);
void bind_io(py::module_& m);
void bind_datasets(py::module_& m);
void bind_transpilers(py::module_& m);

}  // namespace trireme::binding

namespace pybind11::detail {
// Things of a program are never copied, whatever their members would allow.
template <>
struct is_copy_constructible<trireme::Block> : std::false_type {};
template <>
struct is_copy_constructible<trireme::Op> : std::false_type {};
template <>
struct is_copy_constructible<trireme::Var> : std::false_type {};
}  // namespace pybind11::detail

PYBIND11_DECLARE_HOLDER_TYPE(T, trireme::binding::InProgram<T>, true)
