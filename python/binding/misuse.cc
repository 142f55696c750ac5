// Calls that no function of the engine takes: what, where and how to fix it, said once for all of
// them.
//
// pybind11 answers such a call with a dump of its signatures and of every argument. All of its
// functions are entered through one function of its own, which their method tables name: here the
// tables name `enter` instead, which calls that function and replaces the dump. Calls that are
// right cost one jump more.
#include "python/binding/misuse.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/text.h"
#include "ir/near_match.h"
#include "python/binding/binding.h"

namespace trireme::binding {
namespace {

using pybind11::detail::function_record;

PyCFunctionWithKeywords pybind_enter = nullptr;

// Names of functions that do not know their own: setters of properties.
std::unordered_map<const function_record*, std::string>& shown_names() {
  static auto* names = new std::unordered_map<const function_record*, std::string>();
  return *names;
}

const function_record* record_of(PyObject* self) {
  const char* name = PyCapsule_GetName(self);
  return static_cast<const function_record*>(PyCapsule_GetPointer(self, name));
}

std::vector<const function_record*> overloads_of(const function_record* record) {
  std::vector<const function_record*> all;
  for (; record; record = record->next) all.push_back(record);
  return all;
}

std::string without_module(std::string text) {
  for (const std::string module : {"paddle.fluid.core.", "_trireme."}) {
    for (size_t at = text.find(module); at != std::string::npos; at = text.find(module)) {
      text.erase(at, module.size());
    }
  }
  return text;
}

// What was wrong with one overload: how badly it fits, what to say, and what to do.
struct Complaint {
  int distance = 0;
  std::string problem;
  std::string fix;
};

std::string names_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& each : parameters) {
    if (each.name == "self" || each.name.starts_with("_")) continue;
    names.push_back(each.default_text.empty() ? each.name : cat(each.name, "=", each.default_text));
  }
  return join(names);
}

// A parameter without a name of its own: "arg0" of a setter is its value.
std::string shown_name(const Parameter& parameter, size_t index) {
  if (!parameter.name.starts_with("arg")) return parameter.name;
  return cat("argument ", index + 1);
}

Complaint complain(const std::vector<Parameter>& parameters, const PublicFunction& called,
                   const py::tuple& args, const py::dict& kwargs) {
  const size_t first = !parameters.empty() && parameters[0].name == "self" ? 1 : 0;
  std::vector<py::object> given(parameters.size());
  Complaint result;
  const std::string call = cat("it is called as ", called.name, called.arguments);
  const auto note = [&](int distance, const std::string& problem, const std::string& fix) {
    if (result.problem.empty()) {
      result.problem = problem;
      result.fix = fix;
    }
    result.distance += distance;
  };
  if (first == 1 && args.size() > 0 && !fits(args[0], parameters[0].type)) {
    note(5,
         cat("it is a method of ", wanted_text(parameters[0].type), " and is called on ",
             described(args[0])),
         call);
  }
  if (args.size() > parameters.size()) {
    note(4,
         cat("it takes ", parameters.size() - first, " arguments but ", args.size() - first,
             " are given"),
         call);
  }
  for (size_t i = 0; i < std::min(args.size(), given.size()); ++i) given[i] = args[i];
  for (const auto& [key, value] : kwargs) {
    const auto name = py::cast<std::string>(key);
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    if (found == parameters.end()) {
      std::vector<std::string> known;
      for (size_t i = first; i < parameters.size(); ++i) known.push_back(parameters[i].name);
      const std::vector<std::string> near = near_matches(name, known);
      note(3, cat("it has no argument '", name, "'"),
           near.empty() ? call : cat("did you mean '", near.front(), "'? ", call));
      continue;
    }
    const auto index = static_cast<size_t>(found - parameters.begin());
    if (given[index]) note(3, cat(name, " is given twice"), call);
    given[index] = py::reinterpret_borrow<py::object>(value);
  }
  for (size_t i = first; i < parameters.size(); ++i) {
    const std::string name = shown_name(parameters[i], i - first);
    if (!given[i]) {
      if (parameters[i].default_text.empty()) note(2, cat(name, " is missing"), call);
    } else if (given[i].is_none() && parameters[i].default_text == "None") {
      continue;
    } else if (!fits(given[i], parameters[i].type)) {
      note(1,
           cat(name, " must be ", wanted_text(parameters[i].type), ", not ", described(given[i])),
           call);
    }
  }
  return result;
}

// What the user called, with its arguments: a function of the package, or ours.
PublicFunction called_function(const function_record* record, const py::tuple& args) {
  if (std::optional<PublicFunction> outer = public_function()) return *outer;
  const auto named = shown_names().find(record);
  std::string own = named != shown_names().end() ? named->second : record->name ? record->name : "";
  if (own == "__init__" && args.size() > 0) own = Py_TYPE(args[0].ptr())->tp_name;
  return {without_module(own), cat("(", names_of(parameters_of(record->signature)), ")")};
}

void explain(PyObject* self, PyObject* args_in, PyObject* kwargs_in) {
  const auto args = py::reinterpret_borrow<py::tuple>(args_in);
  const py::dict kwargs = kwargs_in ? py::reinterpret_borrow<py::dict>(kwargs_in) : py::dict();
  const function_record* record = record_of(self);
  const PublicFunction called = called_function(record, args);
  std::optional<Complaint> best;
  for (const function_record* overload : overloads_of(record)) {
    Complaint one = complain(parameters_of(overload->signature), called, args, kwargs);
    if (!best || one.distance < best->distance) best = std::move(one);
  }
  if (best->problem.empty()) {  // what is given looks right from here: say what it is
    std::vector<std::string> texts;
    const std::vector<Parameter> parameters = parameters_of(record->signature);
    const bool method = !parameters.empty() && parameters[0].name == "self";
    for (size_t i = method ? 1 : 0; i < args.size(); ++i) texts.push_back(described(args[i]));
    for (const auto& [key, value] : kwargs)
      texts.push_back(cat(py::cast<std::string>(key), "=", described(value)));
    best->problem = cat("these arguments do not fit: ", join(texts));
    best->fix = cat("it is called as ", called.name, called.arguments);
  }
  set_error(Error(ErrorKind::type_mismatch, best->problem)
                .in(called.name)
                .at(python_line())
                .fix(best->fix));
}

// Whether what is raised is pybind11's own complaint about a call.
bool is_dump() {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_RuntimeError))
    return false;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  std::string text;
  if (value) {
    const auto shown = py::reinterpret_steal<py::object>(PyObject_Str(value));
    if (shown) text = py::cast<std::string>(shown);
    PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
  return text.find("): incompatible ") != std::string::npos ||
         text.find("Unable to cast Python instance") != std::string::npos;
}

// A method that is called on None: pybind11 would hand it a null pointer.
bool is_on_none(PyObject* self, PyObject* args) {
  return PyTuple_GET_SIZE(args) > 0 && PyTuple_GET_ITEM(args, 0) == Py_None &&
         record_of(self)->is_method;
}

PyObject* enter(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!is_on_none(self, args)) {
    PyObject* result = pybind_enter(self, args, kwargs);
    if (result || !is_dump()) return result;
  }
  PyErr_Clear();
  try {
    explain(self, args, kwargs);
  } catch (py::error_already_set& problem) {
    problem.restore();
  } catch (const std::exception& problem) {
    PyErr_SetString(PyExc_TypeError, problem.what());
  }
  return nullptr;
}

void watch_function(py::handle thing, const std::string& setter = {}) {
  PyObject* function = thing.ptr();
  if (function && PyInstanceMethod_Check(function))
    function = PyInstanceMethod_GET_FUNCTION(function);
  if (!function || !PyCFunction_Check(function)) return;
  PyObject* self = PyCFunction_GET_SELF(function);
  if (!self || !PyCapsule_CheckExact(self)) return;
  PyMethodDef* table = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  const auto now =
      reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(table->ml_meth));
  if (now == enter) return;
  if (!pybind_enter) pybind_enter = now;
  if (now != pybind_enter) return;
  table->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(enter));
  if (!setter.empty()) shown_names()[record_of(self)] = setter;
}

void watch_class(py::handle type) {
  const std::string name = without_module(reinterpret_cast<PyTypeObject*>(type.ptr())->tp_name);
  const auto members = py::dict(type.attr("__dict__"));
  for (const auto& [key, member] : members) {
    if (PyType_Check(member.ptr()) && !member.is(type)) watch_class(member);  // its enumerations
    watch_function(member);
    if (Py_IS_TYPE(member.ptr(), &PyStaticMethod_Type)) watch_function(member.attr("__func__"));
    if (!py::hasattr(member, "fset")) continue;
    watch_function(member.attr("fget"));
    watch_function(member.attr("fset"), cat(name, ".", py::cast<std::string>(key)));
  }
}

// The same for a function of the package: `names` and `defaults` are those of its signature, a
// default is None where there is none.
void explain_python(py::handle function, const std::vector<std::string>& names,
                    const std::vector<std::optional<std::string>>& defaults, const py::tuple& args,
                    const py::dict& kwargs) {
  std::vector<Parameter> parameters;
  for (size_t i = 0; i < names.size(); ++i) {
    parameters.push_back({names[i], {}, defaults.at(i).value_or("")});
  }
  const PublicFunction called = public_name(function);
  const Complaint found = complain(parameters, called, args, kwargs);
  if (found.problem.empty()) return;
  throw Error(ErrorKind::type_mismatch, found.problem)
      .in(called.name)
      .at(python_line())
      .fix(found.fix);
}

// For values that Python found not to fit only when a line of the package used them.
void raise_misfit(const std::vector<std::string>& names, const py::list& values,
                  py::handle function, const std::string& python_says) {
  std::vector<std::string> given;
  for (size_t i = 0; i < names.size(); ++i)
    given.push_back(cat(names[i], " is ", described(values[i])));
  const PublicFunction called = public_name(function);
  throw Error(ErrorKind::type_mismatch, cat("what is given does not fit: ", join(given)))
      .in(called.name)
      .note(cat("Python says: ", without_module(python_says)))
      .at(python_line())
      .fix(cat("it is called as ", called.name, called.arguments));
}

}  // namespace

void bind_misuse(py::module_& m) {
  m.def("explain_call", &explain_python);
  m.def("raise_misfit", &raise_misfit);
  m.def("near_matches", &near_matches);
}

void watch_for_misuse(py::module_& m) {
  for (const auto& [key, member] : py::dict(m.attr("__dict__"))) {
    if (PyType_Check(member.ptr())) {
      watch_class(member);
    } else {
      watch_function(member);
    }
  }
}

}  // namespace trireme::binding
