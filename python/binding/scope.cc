// Scopes and their slots as Python sees them.
#include "core/scope.h"

#include "core/text.h"
#include "python/binding/binding.h"
#include "runtime/executor.h"

namespace trireme::binding {
namespace {

// The scope that scope_guard made current, else the process's own.
std::shared_ptr<ScopeHandle>& current_scope() {
  static auto* held =
      new std::shared_ptr<ScopeHandle>(std::make_shared<ScopeHandle>(global_scope()));
  return *held;
}

std::shared_ptr<ScopeHandle> switch_scope(std::shared_ptr<ScopeHandle> scope) {
  std::shared_ptr<ScopeHandle>& current = current_scope();  // before the engine's own is another
  swap_global_scope(&scope->get());
  return std::exchange(current, std::move(scope));
}

// Numbers that programs keep in a scope.
template <class T>
class HostNumber final : public HostObject {
 public:
  explicit HostNumber(T value) : value(value) {}
  std::string describe() const override { return cat("the number ", value); }
  T value;
};

template <class T>
T number_in(const SlotHandle& slot) {
  if (const auto held = slot.get().host<HostNumber<T>>()) return held->value;
  throw Error(cat("variable ", slot.name, " is ", slot.get().describe(), ", not a number"));
}

void bind_slot(py::module_& m) {
  py::class_<SlotHandle>(m, "ScopeVariable")
      .def("name", [](const SlotHandle& s) { return s.name; })
      .def("get_tensor",
           [](const SlotHandle& s) {
             s.get().tensor();  // an empty slot becomes a tensor
             return TensorHandle([s]() -> Tensor& { return s.get().tensor(); });
           })
      .def("get_selected_rows",
           [](const SlotHandle& s) {
             s.get().rows();
             return RowsHandle([s]() -> SelectedRows& { return s.get().rows(); });
           })
      .def("get_lod_tensor_array",
           [](const SlotHandle& s) {
             s.get().array();
             return ArrayHandle([s]() -> TensorArray& { return s.get().array(); });
           })
      .def("is_initialized", [](const SlotHandle& s) { return s.get().initialized(); })
      .def("clear", [](const SlotHandle& s) { s.get().clear(); })
      .def("set_int", [](const SlotHandle& s,
                         int64_t v) { s.get().set_host(std::make_shared<HostNumber<int64_t>>(v)); })
      .def("get_int", &number_in<int64_t>)
      .def("is_int",
           [](const SlotHandle& s) { return s.get().host<HostNumber<int64_t>>() != nullptr; })
      .def("set_float", [](const SlotHandle& s,
                           double v) { s.get().set_host(std::make_shared<HostNumber<double>>(v)); })
      .def("get_float", &number_in<double>)
      .def("is_float",
           [](const SlotHandle& s) { return s.get().host<HostNumber<double>>() != nullptr; })
      .def("__repr__",
           [](const SlotHandle& s) { return cat("<", s.name, ": ", s.get().describe(), ">"); });
}

}  // namespace

Scope& ScopeHandle::get() const {
  if (!scope_) {
    throw Error(ErrorKind::precondition, "this scope was dropped by its parent's drop_kids()");
  }
  return *scope_;
}

std::shared_ptr<ScopeHandle> ScopeHandle::new_scope() {
  auto kid = std::make_shared<ScopeHandle>(get().new_scope());
  kid->parent_ = shared_from_this();
  std::erase_if(kids_, [](const auto& held) { return held.expired(); });
  kids_.push_back(kid);
  return kid;
}

void ScopeHandle::drop_kids() {
  for (const auto& kid : kids_) {
    if (const auto held = kid.lock()) held->die();
  }
  kids_.clear();
  get().drop_kids();
}

void ScopeHandle::die() {
  scope_ = nullptr;
  for (const auto& kid : kids_) {
    if (const auto held = kid.lock()) held->die();
  }
}

Variable& SlotHandle::get() const {
  if (Variable* slot = scope->get().find(name)) return *slot;
  throw Error(ErrorKind::not_found, cat("variable ", name, " was erased from its scope"));
}

std::shared_ptr<ScopeHandle> global_scope_handle() { return current_scope(); }

void bind_scopes(py::module_& m) {
  bind_slot(m);
  py::class_<ScopeHandle, std::shared_ptr<ScopeHandle>>(m, "Scope", py::dynamic_attr())
      .def(py::init<>())
      .def(
          "var",
          [](std::shared_ptr<ScopeHandle> s, const std::string& name) {
            s->get().var(name);
            return SlotHandle{s, name};
          },
          py::arg("name"))
      .def(
          "find_var",
          [](std::shared_ptr<ScopeHandle> s, const std::string& name) -> std::optional<SlotHandle> {
            if (!s->get().find(name)) return std::nullopt;
            return SlotHandle{s, name};
          },
          py::arg("name"))
      .def("new_scope", &ScopeHandle::new_scope)
      .def("drop_kids", &ScopeHandle::drop_kids)
      .def(
          "erase",
          [](ScopeHandle& s, const std::vector<std::string>& names) { s.get().erase(names); },
          py::arg("names"))
      .def("size", [](ScopeHandle& s) { return s.get().size(); })
      .def("local_var_names", [](ScopeHandle& s) { return s.get().names(); })
      .def("_remove_from_pool", [](ScopeHandle&) {});
  m.def("global_scope", &global_scope_handle);
  m.def("switch_scope", &switch_scope, py::arg("scope"));
}

}  // namespace trireme::binding
