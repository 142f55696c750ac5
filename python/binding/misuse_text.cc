// What a function's parameters take and what it was given, in words.
#include <algorithm>

#include "core/text.h"
#include "python/binding/misuse.h"

namespace trireme::binding {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Cuts at `mark` outside of brackets and quotes.
std::vector<std::string_view> cut(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'') quoted = !quoted;
    if (quoted) continue;
    depth += c == '[' || c == '(' || c == '{' || c == '<';
    depth -= c == ']' || c == ')' || c == '}' || (c == '>' && (i == 0 || text[i - 1] != '-'));
    if (c != mark || depth != 0) continue;
    parts.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (!trimmed(text.substr(begin)).empty()) parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

// What stands in the brackets of "Outer[...]"; nothing for another type.
std::vector<std::string_view> inside(std::string_view type, std::string_view outer) {
  if (!type.starts_with(outer) || !type.ends_with(']') || type.size() <= outer.size() ||
      type[outer.size()] != '[') {
    return {};
  }
  return cut(type.substr(outer.size() + 1, type.size() - outer.size() - 2), ',');
}

std::string_view last_name(std::string_view type) {
  const size_t dot = type.find_last_of('.');
  return dot == std::string_view::npos ? type : type.substr(dot + 1);
}

bool is_number(py::handle value) {
  return PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()) ||
         py::hasattr(value, "__float__") || PyIndex_Check(value.ptr());
}

bool is_list(py::handle value) {
  return PySequence_Check(value.ptr()) && !PyUnicode_Check(value.ptr()) &&
         !PyBytes_Check(value.ptr());
}

bool fits_class(py::handle value, std::string_view name) {
  const py::module_ own = py::module_::import("_trireme");
  const std::string attribute(name);
  if (!py::hasattr(own, attribute.c_str())) return true;
  const py::object type = own.attr(attribute.c_str());
  return !PyType_Check(type.ptr()) || py::isinstance(value, type);
}

std::string type_text(std::string_view type) {
  type = trimmed(type);
  if (const auto parts = inside(type, "Optional"); !parts.empty()) {
    return cat(type_text(parts[0]), " or None");
  }
  if (const auto parts = inside(type, "Union"); !parts.empty()) {
    std::vector<std::string> texts;
    for (const std::string_view part : parts) texts.push_back(type_text(part));
    return join(texts, " or ");
  }
  for (const char* list : {"List", "Sequence", "Set"}) {
    if (const auto parts = inside(type, list); !parts.empty()) {
      const std::string item = type_text(parts[0]);
      return cat("a list of ", item.starts_with("a ") ? item.substr(2) : item);
    }
  }
  if (type.starts_with("Dict")) return "a dict";
  if (type.starts_with("Tuple")) return "a tuple";
  if (type.starts_with("Callable") || type == "function") return "a function";
  if (type == "str") return "a str";
  if (type == "None" || type == "int" || type == "float" || type == "bool")
    return std::string(type);
  const std::string_view name = last_name(type);
  const bool vowel = std::string_view("aeiouAEIOU").find(name.front()) != std::string_view::npos;
  return cat(vowel ? "an " : "a ", name);
}

std::string shortened(std::string text) {
  constexpr size_t kMost = 40;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::vector<Parameter> parameters_of(std::string_view signature) {
  const size_t open = signature.find('(');
  size_t close = signature.rfind(") ->");
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  std::vector<Parameter> parameters;
  for (const std::string_view part : cut(signature.substr(open + 1, close - open - 1), ',')) {
    const std::vector<std::string_view> sides = cut(part, '=');
    const size_t colon = sides[0].find(':');
    if (colon == std::string_view::npos) continue;  // "*args"
    parameters.push_back({std::string(trimmed(sides[0].substr(0, colon))),
                          std::string(trimmed(sides[0].substr(colon + 1))),
                          sides.size() > 1 ? std::string(sides[1]) : std::string()});
  }
  return parameters;
}

bool fits(py::handle value, std::string_view type) {
  type = trimmed(type);
  if (const auto parts = inside(type, "Optional"); !parts.empty()) {
    return value.is_none() || fits(value, parts[0]);
  }
  if (const auto parts = inside(type, "Union"); !parts.empty()) {
    return std::ranges::any_of(parts, [&](std::string_view part) { return fits(value, part); });
  }
  for (const char* list : {"List", "Sequence"}) {
    const auto parts = inside(type, list);
    if (parts.empty()) continue;
    if (!is_list(value)) return false;
    for (py::handle item : py::list(py::reinterpret_borrow<py::object>(value))) {
      if (!fits(item, parts[0])) return false;
    }
    return true;
  }
  if (type == "str") return PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr());
  if (type == "int") return !PyFloat_Check(value.ptr()) && PyIndex_Check(value.ptr());
  if (type == "float") return !PyUnicode_Check(value.ptr()) && is_number(value);
  if (type == "bool") return PyBool_Check(value.ptr()) || value.is_none();
  if (type == "None") return value.is_none();
  if (type == "dict" || type.starts_with("Dict")) return PyDict_Check(value.ptr());
  if (type == "list") return PyList_Check(value.ptr());
  if (type == "tuple") return PyTuple_Check(value.ptr());
  if (type.starts_with("Callable") || type == "function") return PyCallable_Check(value.ptr());
  return fits_class(value, last_name(type));
}

std::string wanted_text(std::string_view type) { return type_text(type); }

std::string described(py::handle value) {
  if (value.is_none()) return "None";
  if (py::isinstance<Var>(value)) return cat("the Variable ", value.cast<Var&>().name());
  if (PyUnicode_Check(value.ptr())) return cat("the str ", shortened(py::repr(value)));
  const std::string type(last_name(Py_TYPE(value.ptr())->tp_name));
  if (PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr())) {
    return cat(type, " ", shortened(py::str(value)));
  }
  if (type == "ndarray") {
    return cat("an array ", shortened(py::str(value.attr("dtype"))), " ",
               shortened(py::str(py::list(value.attr("shape")))));
  }
  if (PyType_Check(value.ptr())) {
    return cat("the class ", last_name(reinterpret_cast<PyTypeObject*>(value.ptr())->tp_name));
  }
  if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
    const py::object items = py::reinterpret_borrow<py::object>(value);
    if (py::len(items) == 0) return cat("an empty ", type);
    for (py::handle item : items) {
      if (!is_number(item)) return cat("a ", type, " with ", described(item));
    }
    return cat("the ", type, " ", shortened(py::repr(value)));
  }
  const bool vowel = std::string_view("aeiouAEIOU").find(type.front()) != std::string_view::npos;
  return cat(vowel ? "an " : "a ", type);
}

}  // namespace trireme::binding
