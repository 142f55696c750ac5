// Errors become Python exceptions, once: EnforceNotMet and the builtin type that the kind names.
#include "core/error.h"

#include <array>
#include <new>

#include "python/binding/binding.h"
#include "python/binding/misuse.h"

namespace trireme::binding {
namespace {

constexpr size_t kKinds = static_cast<size_t>(ErrorKind::assertion) + 1;

// Owned by the module, which lives as long as the process.
std::array<PyObject*, kKinds> type_of_kind{};

PyObject* make_type(py::module_& m, const char* name, const py::tuple& bases) {
  py::object type = py::reinterpret_borrow<py::object>((PyObject*)&PyType_Type)(
      name, bases, py::dict(py::arg("__module__") = "paddle.fluid.core"));
  m.attr(name) = type;
  return type.ptr();
}

PyObject* builtin_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return PyExc_ValueError;
    case ErrorKind::type_mismatch:
      return PyExc_TypeError;
    case ErrorKind::out_of_range:
      return PyExc_IndexError;
    case ErrorKind::resource_exhausted:
      return PyExc_MemoryError;
    case ErrorKind::unimplemented:
      return PyExc_NotImplementedError;
    case ErrorKind::fatal:
      return PyExc_SystemError;
    case ErrorKind::external:
      return PyExc_OSError;
    case ErrorKind::assertion:
      return PyExc_AssertionError;
    default:
      return PyExc_RuntimeError;
  }
}

const char* name_of_type(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "InvalidArgumentError";
    case ErrorKind::type_mismatch:
      return "TypeMismatchError";
    case ErrorKind::not_found:
      return "NotFoundError";
    case ErrorKind::already_exists:
      return "AlreadyExistsError";
    case ErrorKind::precondition:
      return "PreconditionNotMetError";
    case ErrorKind::permission:
      return "PermissionDeniedError";
    case ErrorKind::timeout:
      return "ExecutionTimeoutError";
    case ErrorKind::unavailable:
      return "UnavailableError";
    case ErrorKind::out_of_range:
      return "OutOfRangeError";
    case ErrorKind::resource_exhausted:
      return "ResourceExhaustedError";
    case ErrorKind::unimplemented:
      return "UnimplementedError";
    case ErrorKind::fatal:
      return "FatalError";
    case ErrorKind::external:
      return "ExternalError";
    case ErrorKind::assertion:
      return "AssertionFailedError";
    case ErrorKind::end_of_data:
      return "EOFException";
  }
  return "EnforceNotMet";
}

// The text without the name of its class, which Python says.
std::string without_class(const Error& error) {
  const std::string_view text = error.what(), type = name_of(error.kind());
  if (!text.starts_with(type)) return std::string(text);
  std::string_view rest = text.substr(type.size());
  for (const std::string_view between : {" in ", ": "}) {
    if (rest.starts_with(between)) return std::string(rest.substr(between.size()));
  }
  return std::string(text);
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    set_error(error);
  } catch (const std::bad_alloc&) {
    PyErr_SetString(type_of_kind[static_cast<size_t>(ErrorKind::resource_exhausted)],
                    "out of memory");
  }
}

}  // namespace

void set_error(const Error& error) {
  PyErr_SetString(type_of_kind[static_cast<size_t>(error.kind())], without_class(error).c_str());
}

void bind_errors(py::module_& m) {
  const py::handle exception = PyExc_Exception;
  PyObject* enforce = make_type(m, "EnforceNotMet", py::make_tuple(exception));
  for (size_t i = 0; i < kKinds; ++i) {
    const auto kind = static_cast<ErrorKind>(i);
    py::tuple bases = py::make_tuple(exception);
    if (kind != ErrorKind::end_of_data) {
      bases = py::make_tuple(py::handle(enforce), py::handle(builtin_of(kind)));
    }
    type_of_kind[i] = make_type(m, name_of_type(kind), bases);
  }
  py::register_exception_translator(&translate);
}

}  // namespace trireme::binding
