// CompiledProgram.save and CompiledProgram.load.
#include "io/compiled_file.h"

#include "python/binding/binding.h"
#include "python/binding/casters.h"
#include "python/binding/without_gil.h"

namespace trireme::binding {
namespace {

void save(const CompiledProgram& compiled, const std::string& path,
          const std::shared_ptr<ScopeHandle>& scope, const Executor* ran_by, bool parameters,
          const py::dict& proof_feed, const std::vector<std::string>& proof_fetches) {
  SaveCompiledOptions options;
  options.parameters = parameters;
  options.proof_feeds = feeds_from_python(*compiled.program(), proof_feed);
  options.proof_fetches = proof_fetches;
  options.poll = poll_signals;
  const std::shared_ptr<ScopeHandle> used = scope ? scope : global_scope_handle();
  const WithoutGil without_gil;
  save_compiled(path, compiled, used->get(), ran_by, options);
}

py::tuple load(const std::string& path, Executor& executor,
               const std::shared_ptr<ScopeHandle>& scope, bool prove) {
  const std::shared_ptr<ScopeHandle> used = scope ? scope : global_scope_handle();
  LoadedCompiled loaded;
  std::optional<double> difference;
  {
    const WithoutGil without_gil;
    loaded = load_compiled(path, executor, used->get());
    if (prove) difference = run_proof(loaded, used->get(), poll_signals);
  }
  return py::make_tuple(*loaded.compiled, loaded.compiled->program(), loaded.notes, difference);
}

}  // namespace

void bind_compiled_file(py::module_& m) {
  m.def("save_compiled", &save, py::arg("compiled"), py::arg("path"), py::arg("scope"),
        py::arg("ran_by"), py::arg("parameters"), py::arg("proof_feed"), py::arg("proof_fetches"));
  m.def("load_compiled", &load, py::arg("path"), py::arg("executor"), py::arg("scope"),
        py::arg("prove"));
}

}  // namespace trireme::binding
