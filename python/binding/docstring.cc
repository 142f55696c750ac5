// Docstrings of the engine's functions: the package adds meaning, arguments and a sample behind the
// signature.
#include <cstdlib>
#include <cstring>

#include "python/binding/binding.h"

namespace trireme::binding {

void bind_docstrings(py::module_& m) {
  m.def(
      "add_to_docstring",
      [](py::handle function, const std::string& text) {
        if (!PyCFunction_Check(function.ptr())) {
          throw py::type_error("add_to_docstring takes a function of the engine");
        }
        PyMethodDef* def = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
        const std::string whole = (def->ml_doc ? def->ml_doc : "") + text;
        // pybind11 made the text with strdup, and frees it so where it frees it at all.
        std::free(const_cast<char*>(def->ml_doc));
        def->ml_doc = strdup(whole.c_str());
      },
      py::arg("function"), py::arg("text"));
}

}  // namespace trireme::binding
