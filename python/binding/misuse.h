// Calls that do not fit a function: its parameters, what they take, and what was given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "python/binding/binding.h"

namespace trireme::binding {

// Every function of the module answers calls that do not fit with an Error of ours.
void watch_for_misuse(py::module_& m);
// Raises it in Python, as the translator of errors does.
void set_error(const Error& error);

struct Parameter {
  std::string name;
  std::string type;          // as pybind11 writes it: "Union[int, Sequence[int]]"
  std::string default_text;  // empty: it must be given
};
// Of "(x: _trireme.Variable, size: int = 3) -> None".
std::vector<Parameter> parameters_of(std::string_view signature);
// Whether a value may be what such a type says; unknown types fit everything.
bool fits(py::handle value, std::string_view type);
std::string wanted_text(std::string_view type);  // "int or a list of int"
std::string described(py::handle value);         // "an array float32 [2, 3]"
// The function of the package that the user's own line calls; nothing where it calls us.
struct PublicFunction {
  std::string name;
  std::string arguments;  // "(executor, dirname, filename=None)"
};
std::optional<PublicFunction> public_function();
PublicFunction public_name(py::handle function);
// Whose is it: raises what is wrong with a call of a function of Python's own.
void bind_misuse(py::module_& m);

}  // namespace trireme::binding
