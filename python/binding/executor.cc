// Executor: feeds in, one call without the GIL, fetches out.
#include "runtime/executor.h"

#include <pybind11/numpy.h>
#include <unistd.h>

#include "comm/assembly.h"
#include "compile/pipeline.h"
#include "core/text.h"
#include "ops/remote/remote_calls.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"
#include "python/binding/without_gil.h"
#include "runtime/check_passes.h"

namespace trireme::binding {
namespace {

// A number or a (nested) list takes the declared element type of the variable it is fed to.
Tensor from_plain_python(const Program& program, const std::string& name, py::handle value) {
  const Var* var = program.global_block().find_var(name);
  const py::object numpy = py::module_::import("numpy");
  const py::object dtype =
      var ? py::object(py::str(std::string(name_of(var->dtype())))) : py::none();
  const bool is_number = !is_sequence(value);
  try {
    const py::object array =
        is_number ? numpy.attr("full")(1, value, dtype) : numpy.attr("array")(value, dtype);
    return from_numpy(array);
  } catch (py::error_already_set& error) {
    throw Error(ErrorKind::type_mismatch,
                cat("the list fed to ", name, " is not an array of numbers: ", error.what()))
        .fix("feed a numpy array; for sequences of unequal length feed a LoDTensor");
  }
}

Tensor feed_value(const Program& program, const std::string& name, py::handle value) {
  if (py::isinstance<py::array>(value)) return from_numpy(value);
  if (py::isinstance<TensorHandle>(value)) return value.cast<TensorHandle&>().get();
  if (PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr()) || is_sequence(value)) {
    return from_plain_python(program, name, value);
  }
  if (py::hasattr(value, "__array__")) return from_numpy(value);
  throw Error(ErrorKind::type_mismatch,
              cat("the value fed to ", name, " is a ", Py_TYPE(value.ptr())->tp_name))
      .fix("feed a numpy array, a LoDTensor, a number or a list of numbers");
}

}  // namespace

Feeds feeds_from_python(const Program& program, const py::dict& feed) {
  std::vector<Feeds::Entry> feeds;
  feeds.reserve(feed.size());
  for (const auto& [key, value] : feed) {
    const bool is_variable = !PyUnicode_Check(key.ptr()) && py::isinstance<Var>(key);
    auto name = is_variable ? key.cast<Var&>().name() : key.cast<std::string>();
    Tensor tensor = feed_value(program, name, value);
    feeds.emplace_back(std::move(name), std::move(tensor));
  }
  return Feeds(std::move(feeds));
}

// Ctrl-C sets a flag in Python; asking for it raises KeyboardInterrupt and ends the run. Python
// handles signals in the main thread alone; others need not ask, and must not at the end of the
// process, when the GIL is not given to them any more.
void poll_signals() {
  if (::gettid() != ::getpid()) return;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

py::list fetches_to_python(std::vector<Variable>& results, bool return_numpy,
                           const std::vector<std::string>& fetches) {
  py::list values(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    values[i] = fetched_to_python(std::move(results[i]), return_numpy, fetches[i]);
  }
  return values;
}

namespace {

py::list run_program(Executor& executor, const std::shared_ptr<Program>& program,
                     const py::dict& feed, const std::vector<std::string>& fetches,
                     const std::shared_ptr<ScopeHandle>& scope, bool return_numpy, bool use_prune,
                     bool keep_optimizers, std::vector<std::string> passes_off, int threads) {
  Feeds feeds = feeds_from_python(*program, feed);
  RunOptions options;
  const std::shared_ptr<ScopeHandle> used = scope ? scope : global_scope_handle();
  options.scope = &used->get();
  options.use_prune = use_prune;
  options.keep_optimizers = keep_optimizers;
  options.passes_off = std::move(passes_off);
  options.poll = poll_signals;
  options.threads = threads;
  std::vector<Variable> results;
  {
    const WithoutGil without_gil;
    results = executor.run(*program, feeds, fetches, std::move(options));
  }
  return fetches_to_python(results, return_numpy, fetches);
}

}  // namespace

void bind_executor(py::module_& m) {
  m.def("pass_names", &pass_names);
  m.def(
      "leave_job",
      [](const std::string& failure) {
        server_calls().leave(failure);
        leave_assemblies(failure);
      },
      "Tells the servers and ranks this process has talked to that it is at its end.",
      py::arg("failure"), py::call_guard<py::gil_scoped_release>());
  m.def(
      "start_geo",
      [](const std::shared_ptr<Program>& trainer, int trainers, int64_t push_every) {
        server_calls().start_geo(geo_settings(*trainer, trainers, push_every));
      },
      py::arg("program"), py::arg("trainers"), py::arg("push_every"));
  m.def(
      "stop_geo",
      [](const std::shared_ptr<ScopeHandle>& scope) {
        const py::gil_scoped_release without_gil;
        server_calls().stop_geo(scope ? &scope->get() : nullptr);
      },
      py::arg("scope"));
  m.def(
      "check_passes",
      [](const std::shared_ptr<Program>& program, const py::dict& feed,
         const std::shared_ptr<ScopeHandle>& scope, double tolerance) {
        const Feeds feeds = feeds_from_python(*program, feed);
        const std::shared_ptr<ScopeHandle> used = scope ? scope : global_scope_handle();
        std::vector<PassCheck> checks;
        {
          const WithoutGil without_gil;
          checks = check_passes(*program, std::vector<Feeds>{feeds}, used->get(),
                                {.tolerance = tolerance, .poll = poll_signals});
        }
        std::vector<std::pair<std::string, std::string>> differing;
        for (const PassCheck& check : checks) {
          if (!check.equal()) differing.emplace_back(check.pass, check.op);
        }
        return std::pair(differing, to_text(checks));
      },
      py::arg("program"), py::arg("feed"), py::arg("scope") = nullptr, py::arg("tolerance") = 0.0,
      "Runs one step with each pass on and with all off, on copies of the scope's variables: the "
      "passes that change a number with the first op that differs, and a text that says so.");
  py::class_<Executor>(m, "Executor")
      .def(py::init<Place>(), py::arg("place"))
      .def("run", &run_program, py::arg("program"), py::arg("feed"), py::arg("fetches"),
           py::arg("scope"), py::arg("return_numpy"), py::arg("use_prune"),
           py::arg("keep_optimizers"), py::arg("passes_off") = std::vector<std::string>(),
           py::arg("threads") = 0)
      .def(
          "report",
          [](const Executor& self, const Program& program) { return self.report(program); },
          py::arg("program"))
      .def_property_readonly("place", &Executor::place)
      .def("close", &Executor::close, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("counters", [](const Executor& e) {
        return py::dict(py::arg("compiles") = e.counters().compiles,
                        py::arg("binds") = e.counters().binds);
      });
}

}  // namespace trireme::binding
