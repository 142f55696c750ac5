// Saving and loading: the functions of io/.
#include "io/checkpoint.h"
#include "io/inference_model.h"
#include "io/state.h"
#include "io/vars.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;
using Names = std::vector<std::string>;
using ScopePtr = std::shared_ptr<ScopeHandle>;

VarList var_list(const std::vector<Var*>& vars) { return {vars.begin(), vars.end()}; }

py::tuple model_tuple(const InferenceModel& model) {
  py::list targets;
  for (const std::string& name : model.targets) {
    targets.append(model.program->global_block().find_var(name));
  }
  return py::make_tuple(model.program, model.feeds, targets);
}

// An empty text stands for "not given", as None does.
void bind_vars(py::module_& m) {
  m.def(
      "save_vars",
      [](const ScopePtr& scope, const std::string& dirname, const std::vector<Var*>& vars,
         const Text& filename) { save_vars(scope->get(), dirname, var_list(vars), filename); },
      "scope"_a, "dirname"_a, "vars"_a, "filename"_a);
  m.def(
      "load_vars",
      [](const ScopePtr& scope, const std::string& dirname, const std::vector<Var*>& vars,
         const Text& filename) { load_vars(scope->get(), dirname, var_list(vars), filename); },
      "scope"_a, "dirname"_a, "vars"_a, "filename"_a);
  m.def(
      "save_checkpoint",
      [](const ScopePtr& scope, const std::string& dirname, const std::vector<Var*>& vars,
         const CheckpointNotes& notes) {
        save_checkpoint(scope->get(), dirname, var_list(vars), notes);
      },
      "scope"_a, "dirname"_a, "vars"_a, "notes"_a);
  m.def(
      "load_checkpoint",
      [](const ScopePtr& scope, const std::string& dirname, const std::vector<Var*>& vars,
         const Names& notes) {
        return load_checkpoint(scope->get(), dirname, var_list(vars), notes);
      },
      "scope"_a, "dirname"_a, "vars"_a, "notes"_a);
  m.def("is_saved_persistable", [](const Var& var) { return is_persistable(var); });
}

void bind_models(py::module_& m) {
  m.def(
      "save_inference_model",
      [](const std::string& dirname, const Names& feeds, const Names& targets, Program& program,
         const ScopePtr& scope, const Text& model_filename, const Text& params_filename,
         bool export_for_deployment, bool program_only) {
        return save_inference_model(
            dirname, feeds, targets, program, scope->get(),
            SaveModelOptions{model_filename, params_filename, export_for_deployment, program_only});
      },
      "dirname"_a, "feeds"_a, "targets"_a, "program"_a, "scope"_a, "model_filename"_a,
      "params_filename"_a, "export_for_deployment"_a, "program_only"_a);
  m.def(
      "save_inference_model_at",
      [](const std::string& prefix, const Names& feeds, const Names& targets, Program& program,
         const ScopePtr& scope, bool clip_extra) {
        save_inference_model(prefix, feeds, targets, program, scope->get(),
                             NormalizeOptions{clip_extra});
      },
      "prefix"_a, "feeds"_a, "targets"_a, "program"_a, "scope"_a, "clip_extra"_a);
  m.def(
      "load_inference_model",
      [](const std::string& dirname, const ScopePtr& scope, const Text& model_filename,
         const Text& params_filename) {
        return model_tuple(load_inference_model(dirname, scope->get(),
                                                LoadModelOptions{model_filename, params_filename}));
      },
      "dirname"_a, "scope"_a, "model_filename"_a, "params_filename"_a);
  m.def(
      "load_inference_model_at",
      [](const std::string& prefix, const ScopePtr& scope) {
        return model_tuple(load_inference_model_at(prefix, scope->get()));
      },
      "prefix"_a, "scope"_a);
  m.def(
      "normalize_program",
      [](Program& program, const Names& feeds, const Names& targets, bool clip_extra) {
        return normalize_program(program, feeds, targets, NormalizeOptions{clip_extra});
      },
      "program"_a, "feeds"_a, "targets"_a, "clip_extra"_a = false);
  m.def(
      "serialize_program",
      [](Program& program, const Names& feeds, const Names& targets) {
        return py::bytes(serialize_program(program, feeds, targets));
      },
      "program"_a, "feeds"_a, "targets"_a);
  m.def(
      "serialize_persistables",
      [](Program& program, const Names& feeds, const Names& targets, const ScopePtr& scope) {
        return py::bytes(serialize_persistables(program, feeds, targets, scope->get()));
      },
      "program"_a, "feeds"_a, "targets"_a, "scope"_a);
  m.def("deserialize_program",
        [](const py::bytes& bytes) { return deserialize_program(bytes.cast<std::string_view>()); });
  m.def(
      "deserialize_persistables",
      [](Program& program, const py::bytes& bytes, const ScopePtr& scope) {
        deserialize_persistables(program, bytes.cast<std::string_view>(), scope->get());
      },
      "program"_a, "bytes"_a, "scope"_a);
}

void bind_states(py::module_& m) {
  m.def(
      "save_state",
      [](Program& program, const std::string& path, const ScopePtr& scope, int protocol) {
        save_state(program, path, scope->get(), PickleOptions{protocol});
      },
      "program"_a, "path"_a, "scope"_a, "protocol"_a);
  m.def(
      "load_state",
      [](Program& program, const std::string& path, const ScopePtr& scope, bool create,
         const Names& vars) {
        load_state(program, path, scope->get(), {create, vars});
      },
      "program"_a, "path"_a, "scope"_a, "create"_a, "var_list"_a);
  m.def(
      "load_program_state",
      [](const std::string& path, const Names& vars) {
        py::dict result;
        for (const auto& [name, tensor] : load_program_state(path, vars)) {
          result[py::str(name)] = to_numpy(tensor);
        }
        return result;
      },
      "path"_a, "var_list"_a);
  m.def(
      "set_program_state",
      [](Program& program, const py::dict& values, const ScopePtr& scope) {
        State state;
        for (const auto& [name, value] : values) {
          state.emplace(name.cast<std::string>(), from_numpy(value).clone());
        }
        set_program_state(program, state, scope->get());
      },
      "program"_a, "state"_a, "scope"_a);
}

}  // namespace

void bind_io(py::module_& m) {
  bind_vars(m);
  bind_models(m);
  bind_states(m);
}

}  // namespace trireme::binding
