// Objects of classes that Python may derive from, held by C++.
#pragma once

#include "core/text.h"
#include "python/binding/binding.h"
#include "python/binding/misuse.h"

namespace trireme::binding {

// A C++ owner keeps the whole Python object alive, so that what Python overrides stays there.
template <class T>
std::shared_ptr<T> kept(py::handle object) {
  if (object.is_none()) return nullptr;
  if (!py::isinstance<T>(object)) {
    const auto wanted = py::cast<std::string>(py::type::of<T>().attr("__name__"));
    throw Error(
        ErrorKind::type_mismatch,
        cat(described(object), " is given where an object of the class ", wanted, " is due"))
        .at(python_line())
        .fix(cat("give an instance of ", wanted, " or of a class derived from it"));
  }
  T* raw = object.cast<T*>();
  auto owner = std::shared_ptr<PyObject>(py::reinterpret_borrow<py::object>(object).release().ptr(),
                                         [](PyObject* held) {
                                           if (!Py_IsInitialized()) return;
                                           const py::gil_scoped_acquire gil;
                                           Py_DECREF(held);
                                         });
  return std::shared_ptr<T>(owner, raw);
}

}  // namespace trireme::binding
