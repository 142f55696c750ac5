// The user's line: the innermost Python frame that is neither ours nor contextlib's.
#include "core/warning.h"
#include "python/binding/binding.h"
#include "python/binding/misuse.h"

namespace trireme::binding {
namespace {

// Set by the package at import, with a separator at the end.
std::string& package_folder() {
  static std::string folder;
  return folder;
}

bool is_ours(const std::string& file) {
  const std::string& folder = package_folder();
  if (!folder.empty() && file.compare(0, folder.size(), folder) == 0) return true;
  constexpr std::string_view kWith = "contextlib.py";  // runs the context managers' bodies
  return file.size() >= kWith.size() &&
         file.compare(file.size() - kWith.size(), kWith.size(), kWith) == 0;
}

std::string text_of(const std::string& file, int line) {
  static PyObject* getline =
      py::object(py::module_::import("linecache").attr("getline")).release().ptr();
  std::string text = py::str(py::handle(getline)(file, line));
  const size_t begin = text.find_first_not_of(" \t");
  const size_t end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? std::string() : text.substr(begin, end - begin + 1);
}

}  // namespace

PublicFunction public_name(py::handle outer) {
  auto name = py::cast<std::string>(outer.attr("__qualname__"));
  if (name.find("<locals>") != std::string::npos)
    name = py::cast<std::string>(outer.attr("__name__"));
  const std::string constructor = ".__init__";
  if (name.ends_with(constructor)) name.erase(name.size() - constructor.size());
  std::string arguments = py::str(py::module_::import("inspect").attr("signature")(outer));
  if (arguments.starts_with("(self")) arguments.replace(0, arguments[5] == ',' ? 7 : 5, "(");
  return {name, arguments};
}

// Every public function of the package is called through a frame of _guard.py, which holds it.
std::optional<PublicFunction> public_function() {
  auto frame = py::reinterpret_borrow<py::object>((PyObject*)PyEval_GetFrame());
  py::object outer;
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>((PyObject*)PyFrame_GetCode(raw));
    const std::string file = py::cast<std::string>(code.attr("co_filename"));
    if (!is_ours(file)) break;
    if (file.ends_with("/_guard.py")) {
      const py::dict locals(frame.attr("f_locals"));
      if (locals.contains("function")) outer = locals["function"];
    }
    frame = py::reinterpret_steal<py::object>((PyObject*)PyFrame_GetBack(raw));
  }
  if (!outer) return std::nullopt;
  return public_name(outer);
}

SourceLine python_line() {
  if (!Py_IsInitialized() || !PyGILState_Check()) return {};
  auto frame = py::reinterpret_borrow<py::object>((PyObject*)PyEval_GetFrame());
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>((PyObject*)PyFrame_GetCode(raw));
    std::string file = py::cast<std::string>(code.attr("co_filename"));
    if (!is_ours(file)) {
      const int line = PyFrame_GetLineNumber(raw);
      return {file, line, py::cast<std::string>(code.attr("co_name")), text_of(file, line)};
    }
    frame = py::reinterpret_steal<py::object>((PyObject*)PyFrame_GetBack(raw));
  }
  return {};
}

void bind_lines(py::module_& m) {
  LineScope::set_provider(python_line);
  m.def("set_package_folder", [](std::string folder) { package_folder() = std::move(folder); });
  m.def("warn", &warn, py::arg("text"), "A warning at the user's own line.");
  // Warnings may come from a running step, which does not hold the GIL.
  set_warning_sink([](const std::string& text) {
    if (!Py_IsInitialized()) return;
    const py::gil_scoped_acquire gil;
    const SourceLine line = python_line();
    const int failed = line.known()
                           ? PyErr_WarnExplicit(PyExc_UserWarning, text.c_str(), line.file.c_str(),
                                                line.line, nullptr, nullptr)
                           : PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1);
    if (failed) throw py::error_already_set();  // the user asked for warnings to be errors
  });
}

}  // namespace trireme::binding
