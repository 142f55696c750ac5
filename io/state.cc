// save(program, path) and load(program, path): <path>.pdparams, <path>.pdopt and <path>.pdmodel.
#include "io/state.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <shared_mutex>

#include "core/directory_save.h"
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

State read_pickle(ByteSource file) {
  State state;
  for (auto& [name, tensor] : read_state(file)) state[name] = std::move(tensor);
  check_end(file, "the end of its pickle");
  return state;
}

// <prefix>.pdparams and <prefix>.pdopt as one save left them.
class StateFiles {
 public:
  explicit StateFiles(const std::string& prefix)
      : name_(split_path(prefix).second), saved_(split_path(prefix).first) {}
  bool has(const char* suffix) const { return saved_.has(name_ + suffix); }
  State read(const char* suffix) const { return read_pickle(saved_.open(name_ + suffix)); }

 private:
  std::string name_;
  SavedDirectory saved_;
};

// One number is [1] in 1.8 and 2.4, and has no dimensions in later versions.
Tensor one_number(const Tensor& tensor, const Shape& wanted) {
  return tensor.shape().rank() == 0 && wanted == Shape{1} ? tensor.reshaped({1}) : tensor;
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
    value.tensor() = one_number(found->second, var->shape());
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

void load_directory(const Program& program, const std::string& directory, Scope& scope) {
  std::set<std::string> unused;
  for (std::string& file : SavedDirectory(directory).names()) unused.insert(std::move(file));
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
  const auto [directory, filename] = split_path(path);
  ByteSource file = SavedDirectory(directory).open(filename);
  State state;
  for (const std::string& name : names) state[name] = read_tensor(file);
  check_end(file, cat("the last of ", names.size(), " variables of var_list"));
  return state;
}

State files_of_directory(const std::string& directory, const std::vector<std::string>& names) {
  State state;
  const SavedDirectory saved(directory);
  for (const std::string& name : names.empty() ? saved.names() : names) {
    ByteSource file = saved.open(name);
    state[name] = read_tensor(file);
    check_end(file, "the variable");
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
  const auto [directory, name] = split_path(path);
  DirectorySave save(directory);
  const auto write = [&, &file = name](const char* suffix, const VarList& vars) {
    write_state(save.file(file + suffix), values_of(vars, scope), options);
  };
  write(kParams, select_vars(program, is_saved_parameter));
  write(kOptimizer, select_vars(program, is_optimizer_state));
  save.file(name + kModel).write(serialize(program));
  save.commit();
}

void load_state(const Program& program, const std::string& path, Scope& scope,
                const LoadStateOptions& options) {
  const std::string prefix = without_suffix(path);
  std::optional<StateFiles> files(prefix);
  if (!files->has(kParams)) {
    files.reset();
    if (!options.create) {
      throw Error(cat("there is no ", prefix, kParams,
                      "; an executor is needed to load what save_vars wrote"))
          .fix("give load() an executor");
    }
    if (fs::is_directory(path)) return load_directory(program, path, scope);
    const auto [directory, filename] = split_path(path);
    if (!SavedDirectory(directory).has(filename)) {
      throw Error(cat("there is neither ", prefix, kParams, " nor ", path)).fix("check the path");
    }
    if (options.var_list.empty()) {
      throw Error(cat("var_list is needed to load ", path, ", as such a file holds no names"))
          .fix("give the variables that were saved into it");
    }
    return load_vars(scope, directory, named(program, options.var_list), filename);
  }
  const std::string params_file = prefix + kParams, optimizer_file = prefix + kOptimizer;
  Values values = chosen(select_vars(program, is_saved_parameter), files->read(kParams),
                         params_file, scope, options.create);
  const VarList states = select_vars(program, is_optimizer_state);
  if (!states.empty()) {
    if (!files->has(kOptimizer)) {
      throw Error(ErrorKind::assertion, cat("there is no ", optimizer_file, " for the ",
                                            states.size(), " variables of the optimizer"))
          .fix("save with save(program, path), or load into a program without an optimizer");
    }
    for (auto& value :
         chosen(states, files->read(kOptimizer), optimizer_file, scope, options.create)) {
      values.push_back(std::move(value));
    }
  }
  set_values(scope, std::move(values));
}

State load_program_state(const std::string& path, const std::vector<std::string>& var_list) {
  const std::string prefix = without_suffix(path);
  {
    const StateFiles files(prefix);
    if (files.has(kParams)) {
      State state = files.read(kParams);
      if (files.has(kOptimizer)) state.merge(files.read(kOptimizer));
      return state;
    }
  }
  if (fs::is_directory(path)) return files_of_directory(path, var_list);
  return one_combined_file(path, var_list);
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
