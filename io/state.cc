// save(program, path) and load(program, path): <path>.pdparams, <path>.pdopt and <path>.pdmodel.
#include "io/state.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <shared_mutex>

#include "core/file.h"
#include "core/tensor_stream.h"
#include "core/text.h"
#include "core/warning.h"
#include "io/vars.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kParams = ".pdparams";
constexpr const char* kOptimizer = ".pdopt";
constexpr const char* kModel = ".pdmodel";

using Values = std::vector<std::pair<std::string, Variable>>;

NamedTensors values_of(const VarList& vars, const Scope& scope) {
  NamedTensors state;
  for (const Var* var : vars) {
    const Variable* variable = scope.find(var->name());
    if (!variable || !variable->initialized() || variable->kind() != Kind::dense) {
      throw Error(ErrorKind::precondition,
                  cat("variable ", var->name(), " holds no tensor in the scope"))
          .fix("run the startup program first (exe.run(startup_program)), or load the variable");
    }
    state.emplace_back(var->name(), variable->tensor());
  }
  return state;
}

std::string without_suffix(const std::string& path) {
  for (const std::string suffix : {kParams, kOptimizer, kModel}) {
    if (path.ends_with(suffix)) return path.substr(0, path.size() - suffix.size());
  }
  return path;
}

State read_pickle(const std::string& path) {
  ByteSource file = ByteSource::file(path);
  State state;
  for (auto& [name, tensor] : read_state(file)) state[name] = std::move(tensor);
  return state;
}

// What the file has for each of `vars`, checked.
Values chosen(const VarList& vars, const State& state, const std::string& file, const Scope& scope,
              bool create) {
  Values values;
  for (const Var* var : vars) {
    const auto found = state.find(var->name());
    if (found == state.end()) {
      throw Error(ErrorKind::assertion, cat("variable ", var->name(), " is not in ", file))
          .fix("load what was saved from this program");
    }
    if (!create && !scope.find(var->name())) {
      throw Error(ErrorKind::precondition, cat("variable ", var->name(), " is not in the scope"))
          .fix("run the startup program first, or give load() an executor");
    }
    Variable value;
    value.tensor() = found->second;
    if (!var->shape().may_equal(value.tensor().shape())) {
      throw Error(ErrorKind::precondition,
                  cat("variable ", var->name(), " has the shape ", var->shape(),
                      " in the program and ", value.tensor().shape(), " in ", file))
          .fix("load a file that was saved from this network");
    }
    values.emplace_back(var->name(), std::move(value));
  }
  return values;
}

VarList named(const Program& program, const std::vector<std::string>& names) {
  VarList vars;
  for (const std::string& name : names) {
    const VarList found = select_vars(program, [&](const Var& var) { return var.name() == name; });
    if (found.empty()) {
      throw Error(ErrorKind::out_of_range,
                  cat("variable ", name, " of var_list is not in the program"));
    }
    vars.push_back(found.front());
  }
  return vars;
}

// The regular files below a directory, as names relative to it.
std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) {
      files.push_back(fs::relative(entry.path(), directory).generic_string());
    }
  }
  std::ranges::sort(files);
  return files;
}

void load_directory(const Program& program, const std::string& directory, Scope& scope) {
  std::set<std::string> unused;
  for (std::string& file : files_below(directory)) unused.insert(std::move(file));
  const VarList vars =
      select_vars(program, [&](const Var& var) { return unused.erase(var.name()) > 0; });
  for (const std::string& file : unused) {
    warn(cat("file ", file, " of ", directory, " is no variable of the program: not used"));
  }
  load_vars(scope, directory, vars);
}

State one_combined_file(const std::string& path, std::vector<std::string> names) {
  if (names.empty()) {
    throw Error(cat("var_list is needed to load ", path, ", as such a file holds no names"))
        .fix("give the variables that were saved into it");
  }
  std::ranges::sort(names);
  ByteSource file = ByteSource::file(path);
  State state;
  for (const std::string& name : names) state[name] = read_tensor(file);
  if (!file.at_end()) {
    throw Error(ErrorKind::unavailable,
                cat(path, " holds more than the ", names.size(), " variables of var_list"));
  }
  return state;
}

State files_of_directory(const std::string& directory, const std::vector<std::string>& names) {
  State state;
  for (const std::string& name : names.empty() ? files_below(directory) : names) {
    ByteSource file = ByteSource::file((fs::path(directory) / name).string());
    state[name] = read_tensor(file);
  }
  return state;
}

}  // namespace

void save_state(const Program& program, const std::string& path, const Scope& scope,
                const PickleOptions& options) {
  if (path.empty() || fs::path(path).filename().empty()) {
    throw Error(ErrorKind::assertion, cat("the path '", path, "' names no file"))
        .fix("give a path such as 'model/net'");
  }
  const std::shared_lock lock(scope.run_lock());
  const auto write = [&](const char* suffix, const VarList& vars) {
    AtomicFile file(path + suffix);
    write_state(file, values_of(vars, scope), options);
    file.commit();
  };
  write(kParams, select_vars(program, is_saved_parameter));
  write(kOptimizer, select_vars(program, is_optimizer_state));
  write_file(path + kModel, serialize(program));
}

void load_state(const Program& program, const std::string& path, Scope& scope,
                const LoadStateOptions& options) {
  const std::string prefix = without_suffix(path);
  if (!fs::exists(prefix + kParams)) {
    if (!options.create) {
      throw Error(cat("there is no ", prefix, kParams,
                      "; an executor is needed to load what save_vars wrote"))
          .fix("give load() an executor");
    }
    if (fs::is_directory(path)) return load_directory(program, path, scope);
    if (!fs::is_regular_file(path)) {
      throw Error(cat("there is neither ", prefix, kParams, " nor ", path)).fix("check the path");
    }
    if (options.var_list.empty()) {
      throw Error(cat("var_list is needed to load ", path, ", as such a file holds no names"))
          .fix("give the variables that were saved into it");
    }
    const fs::path file(path);
    return load_vars(scope, file.parent_path().string(), named(program, options.var_list),
                     file.filename().string());
  }
  const std::string params_file = prefix + kParams, optimizer_file = prefix + kOptimizer;
  Values values = chosen(select_vars(program, is_saved_parameter), read_pickle(params_file),
                         params_file, scope, options.create);
  const VarList states = select_vars(program, is_optimizer_state);
  if (!states.empty()) {
    if (!fs::exists(optimizer_file)) {
      throw Error(ErrorKind::assertion, cat("there is no ", optimizer_file, " for the ",
                                            states.size(), " variables of the optimizer"))
          .fix("save with save(program, path), or load into a program without an optimizer");
    }
    for (auto& value :
         chosen(states, read_pickle(optimizer_file), optimizer_file, scope, options.create)) {
      values.push_back(std::move(value));
    }
  }
  set_values(scope, std::move(values));
}

State load_program_state(const std::string& path, const std::vector<std::string>& var_list) {
  const std::string prefix = without_suffix(path);
  if (!fs::exists(prefix + kParams)) {
    if (fs::is_directory(path)) return files_of_directory(path, var_list);
    return one_combined_file(path, var_list);
  }
  State state = read_pickle(prefix + kParams);
  if (fs::exists(prefix + kOptimizer)) state.merge(read_pickle(prefix + kOptimizer));
  return state;
}

void set_program_state(const Program& program, const State& state, Scope& scope) {
  const VarList vars = select_vars(program, is_persistable);
  std::set<std::string> used;
  Values values;
  for (const Var* var : vars) {
    const auto found = state.find(var->name());
    if (found == state.end()) continue;
    const Variable* variable = scope.find(var->name());
    if (!variable || !variable->initialized() || variable->kind() != Kind::dense) {
      throw Error(ErrorKind::assertion, cat("variable ", var->name(), " holds no value yet"))
          .fix("run the startup program first");
    }
    const Tensor& now = variable->tensor();
    const Tensor& next = found->second;
    if (now.shape() != next.shape() || now.dtype() != next.dtype()) {
      throw Error(ErrorKind::assertion, cat("variable ", var->name(), " is ", now.describe(),
                                            " but the given value is ", next.describe()))
          .fix("set the state of the same network");
    }
    Variable value;
    value.tensor() = next;
    values.emplace_back(var->name(), std::move(value));
    used.insert(var->name());
  }
  for (const auto& [name, tensor] : state) {
    if (!used.count(name))
      warn(cat("the program has no variable ", name, ": its value is not used"));
  }
  set_values(scope, std::move(values));
}

}  // namespace trireme
