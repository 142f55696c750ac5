// Executor.run that is called again with the same things: what the first call checked and made of
// them is kept, so that a step of a small program takes little more than the step.
//
// `run` of the package's Executor is an object of the type below. Called with a program, a dict and
// a list of fetches that it remembers, it runs them; any other call goes to the method written in
// Python, which checks everything and then says what may be remembered.
#include <structmember.h>

#include <algorithm>
#include <array>

#include "layers/defaults.h"
#include "python/binding/binding.h"
#include "python/binding/without_gil.h"
#include "runtime/compiled_program.h"

namespace trireme::binding {
namespace {

struct KnownCall {
  py::object program;  // as it was given: a Program, or a CompiledProgram of the package
  std::shared_ptr<Program> runs;
  uint64_t version = 0;
  std::vector<py::object> items;  // of the fetch list
  std::vector<std::string> fetches;
  std::vector<py::object> fed;          // of a program with feed ops: what these take, all of it
  py::object compiled_object;           // keeps what comes next
  CompiledProgram* compiled = nullptr;  // null for a Program
  bool data_parallel = false;
};

// The calls that an Executor remembers: a few, for programs that are run in turns.
class KnownCalls {
 public:
  explicit KnownCalls(py::object engine)
      : engine_(std::move(engine)), executor_(engine_.cast<Executor*>()) {}

  Executor& executor() const { return *executor_; }
  const py::object& engine() const { return engine_; }

  void remember(KnownCall call) {
    std::shared_ptr<const KnownCall>& kept = calls_[next_];
    next_ = (next_ + 1) % calls_.size();
    kept = std::make_shared<const KnownCall>(std::move(call));
  }
  void forget() { calls_ = {}; }

  std::shared_ptr<const KnownCall> find(PyObject* program, PyObject* fetches) const {
    for (const auto& call : calls_) {
      if (call && is_for(*call, program) && same_items(*call, fetches) &&
          call->version == call->runs->version()) {
        return call;
      }
    }
    return nullptr;
  }

 private:
  static bool is_for(const KnownCall& call, PyObject* program) {
    if (program && program != Py_None) return program == call.program.ptr();
    return !call.compiled && call.runs == defaults().main;
  }
  static bool same_items(const KnownCall& call, PyObject* fetches) {
    const auto count = static_cast<size_t>(PyList_GET_SIZE(fetches));
    if (count != call.items.size()) return false;
    for (size_t i = 0; i < count; ++i) {
      if (PyList_GET_ITEM(fetches, static_cast<Py_ssize_t>(i)) != call.items[i].ptr()) return false;
    }
    return true;
  }

  py::object engine_;
  Executor* executor_;
  std::array<std::shared_ptr<const KnownCall>, 4> calls_;
  size_t next_ = 0;
};

// The method: a callable with two things to go by.
struct RepeatedRun {
  PyObject_HEAD vectorcallfunc call;
  PyObject* full;       // the method in Python
  PyObject* schedules;  // a dict: programs whose learning rate is written before each run
  PyObject* dict;
};

PyObject* word(const char* text) { return PyUnicode_InternFromString(text); }

struct Words {
  PyObject* program = word("program");
  PyObject* feed = word("feed");
  PyObject* fetch_list = word("fetch_list");
  PyObject* calls = word("_calls");
  PyObject* ran_by = word("_ran_by");
  PyObject* last_scope = word("_last_scope");
};
const Words& words() {
  static const Words& made = *new Words;
  return made;
}

struct Given {
  PyObject* program = nullptr;
  PyObject* feed = nullptr;
  PyObject* fetches = nullptr;
};

// Whether nothing is given but a program, a feed and fetches; keywords are interned in what people
// write.
bool read(PyObject* const* args, Py_ssize_t positional, PyObject* names, Given& given) {
  if (positional < 1 || positional > 4) return false;
  if (positional > 1) given.program = args[1];
  if (positional > 2) given.feed = args[2];
  if (positional > 3) given.fetches = args[3];
  const Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    PyObject** to = nullptr;
    if (name == words().program) to = &given.program;
    if (name == words().feed) to = &given.feed;
    if (name == words().fetch_list) to = &given.fetches;
    if (!to || *to) return false;
    *to = args[positional + i];
  }
  return given.feed && given.fetches && PyDict_CheckExact(given.feed) &&
         PyList_CheckExact(given.fetches);
}

py::object attribute(PyObject* of, PyObject* name) {
  PyObject* const found = PyObject_GetAttr(of, name);
  if (!found) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

// A compiled program is as it was when its call was remembered, and ran last here and in this
// scope.
bool unchanged(const KnownCall& call, const KnownCalls& calls, const ScopeHandle* scope) {
  const CompiledProgram& compiled = *call.compiled;
  if (compiled.is_data_parallel() != call.data_parallel) return false;
  if (!compiled.has_one_device(calls.executor())) return false;
  if (attribute(call.program.ptr(), words().ran_by).ptr() != calls.engine().ptr()) return false;
  const py::object last = attribute(call.program.ptr(), words().last_scope);
  return last && !last.is_none() && last.cast<ScopeHandle*>() == scope;
}

// What feed ops name is fed, and nothing else.
bool feeds_all(const KnownCall& call, PyObject* feed) {
  if (call.fed.empty()) return true;
  return PyDict_GET_SIZE(feed) == std::ssize(call.fed) &&
         std::all_of(call.fed.begin(), call.fed.end(), [&](const py::object& name) {
           return PyDict_Contains(feed, name.ptr()) == 1;
         });
}

// Null where the call is not one that is remembered.
PyObject* repeated(const KnownCalls& calls, const Given& given) {
  const std::shared_ptr<const KnownCall> call = calls.find(given.program, given.fetches);
  if (!call || !feeds_all(*call, given.feed)) return nullptr;
  const std::shared_ptr<ScopeHandle> scope = global_scope_handle();
  if (call->compiled && !unchanged(*call, calls, scope.get())) return nullptr;
  const Feeds feeds = feeds_from_python(*call->runs, py::reinterpret_borrow<py::dict>(given.feed));
  RunOptions options;
  options.scope = &scope->get();
  options.poll = poll_signals;
  std::vector<Variable> results;
  {
    const WithoutGil without_gil;
    results =
        call->compiled
            ? call->compiled->run_alone(calls.executor(), feeds, call->fetches, std::move(options))
            : calls.executor().run(*call->runs, feeds, call->fetches, std::move(options));
  }
  return fetches_to_python(results, true, call->fetches).release().ptr();
}

// Errors become Python's where pybind11 does it for all functions.
PyObject* raise_in_python(std::exception_ptr error) {
  static py::object& raiser = *new py::object(py::cpp_function([](const py::capsule& held) {
    std::rethrow_exception(*held.get_pointer<std::exception_ptr>());
  }));
  const py::capsule held(&error);
  PyObject* const none = PyObject_CallOneArg(raiser.ptr(), held.ptr());
  Py_XDECREF(none);
  return nullptr;
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  auto* const run = reinterpret_cast<RepeatedRun*>(self);
  Given given;
  if (PyDict_GET_SIZE(run->schedules) == 0 && read(args, PyVectorcall_NARGS(flags), names, given)) {
    try {
      const py::object calls = attribute(args[0], words().calls);
      if (calls && py::isinstance<KnownCalls>(calls)) {
        if (PyObject* const done = repeated(*calls.cast<KnownCalls*>(), given)) return done;
      }
    } catch (...) {
      return raise_in_python(std::current_exception());
    }
  }
  return PyObject_Vectorcall(run->full, args, flags, names);
}

PyObject* bound_to(PyObject* self, PyObject* object, PyObject*) {
  return !object || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

int visit_parts(PyObject* self, visitproc visit, void* arg) {
  auto* const run = reinterpret_cast<RepeatedRun*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(run->full);
  Py_VISIT(run->schedules);
  Py_VISIT(run->dict);
  return 0;
}

int clear_parts(PyObject* self) {
  auto* const run = reinterpret_cast<RepeatedRun*>(self);
  Py_CLEAR(run->full);
  Py_CLEAR(run->schedules);
  Py_CLEAR(run->dict);
  return 0;
}

void end(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear_parts(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* make_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(RepeatedRun, call), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(RepeatedRun, dict), READONLY, nullptr},
      {"__wrapped__", T_OBJECT, offsetof(RepeatedRun, full), READONLY, nullptr},
      {}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(bound_to)},
                                {Py_tp_traverse, reinterpret_cast<void*>(visit_parts)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear_parts)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(end)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec = {"_trireme.RepeatedRun", sizeof(RepeatedRun), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_METHOD_DESCRIPTOR,
                             slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

// `full` as a method that remembers. It looks and prints as `full` does.
py::object repeatable(const py::object& full, const py::dict& schedules) {
  static PyTypeObject* const type = make_type();
  if (!type) throw py::error_already_set();
  auto* const run = PyObject_GC_New(RepeatedRun, type);
  if (!run) throw py::error_already_set();
  run->call = call;
  run->full = Py_NewRef(full.ptr());
  run->schedules = Py_NewRef(schedules.ptr());
  run->dict = PyDict_New();
  auto made = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(run));
  PyObject_GC_Track(made.ptr());
  for (const char* name : {"__name__", "__qualname__", "__doc__", "__module__"}) {
    made.attr(name) = full.attr(name);
  }
  return made;
}

}  // namespace

void bind_repeated_run(py::module_& m) {
  m.def("repeatable", &repeatable, py::arg("full"), py::arg("schedules"));
  py::class_<KnownCalls>(m, "KnownCalls")
      .def(py::init<py::object>(), py::arg("engine"))
      .def(
          "remember",
          [](KnownCalls& self, py::object program, const std::shared_ptr<Program>& runs,
             const py::list& fetch_list, std::vector<std::string> fetches, py::object compiled,
             const py::list& fed) {
            KnownCall call{.program = std::move(program),
                           .runs = runs,
                           .version = runs->version(),
                           .items = {},
                           .fetches = std::move(fetches),
                           .fed = {},
                           .compiled_object = std::move(compiled)};
            call.compiled = call.compiled_object.cast<CompiledProgram*>();
            for (const py::handle item : fetch_list) {
              call.items.push_back(py::reinterpret_borrow<py::object>(item));
            }
            for (const py::handle name : fed) {
              call.fed.push_back(py::reinterpret_borrow<py::object>(name));
            }
            if (call.compiled) call.data_parallel = call.compiled->is_data_parallel();
            self.remember(std::move(call));
          },
          py::arg("program"), py::arg("runs"), py::arg("fetch_list"), py::arg("fetches"),
          py::arg("compiled"), py::arg("fed"))
      .def("forget", &KnownCalls::forget);
}

}  // namespace trireme::binding
