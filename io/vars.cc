// Saves and loads variables of a scope: one file per variable, or all in one.
#include "io/vars.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "core/directory_save.h"
#include "core/progress.h"
#include "core/tensor_stream.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

using Values = std::vector<std::pair<std::string, Variable>>;

// What has bytes; the rest is left out, as the original does.
VarList with_bytes(VarList vars) {
  std::erase_if(vars, [](const Var* var) { return var->type() == VarType::raw; });
  return vars;
}

VarList by_name(VarList vars) {
  std::ranges::sort(vars, {}, [](const Var* var) { return var->name(); });
  return vars;
}

std::string path_of(const std::string& dirname, const std::string& name) {
  return dirname.empty() ? name : (std::filesystem::path(dirname) / name).string();
}

void write_from(const Scope& scope, const Var& var, ByteSink& to) {
  const Variable* variable = scope.find(var.name());
  if (!variable) {
    throw Error(ErrorKind::not_found, cat("variable ", var.name(), " is not in the scope"))
        .fix("run the startup program first (exe.run(startup_program)), or load the variable");
  }
  write_variable(to, *variable, var.name());
}

// One after the other; whoever wants to know hears which.
template <class Use>
void each_var(const char* work, const VarList& vars, const Use& use) {
  int64_t done = 0;
  for (const Var* var : vars) {
    tell_progress(work, var->name(), done++, static_cast<int64_t>(vars.size()));
    use(*var);
  }
  tell_progress(work, "", done, done);
}

void write_all(const Scope& scope, const VarList& vars, ByteSink& to) {
  each_var("saving", vars, [&](const Var& var) { write_from(scope, var, to); });
}

Variable read_one(ByteSource& from, const Var& var) {
  Variable value;
  try {
    read_variable(from, value, var.type() == VarType::selected_rows ? Holds::rows : Holds::tensor);
  } catch (Error& error) {
    throw error.note(cat("while reading variable ", var.name()));
  }
  check_loaded_shape(var, value, from.name());
  return value;
}

Values read_all(ByteSource& from, const VarList& vars) {
  Values values;
  each_var("loading", vars,
           [&](const Var& var) { values.emplace_back(var.name(), read_one(from, var)); });
  check_end(from, cat("the last of ", vars.size(), " variables"));
  return values;
}

bool nothing_selected(const VarList& vars) {
  if (!vars.empty()) return false;
  warn("no variable is selected: nothing is saved or loaded");
  return true;
}

}  // namespace

bool is_persistable(const Var& var) {
  switch (var.type()) {
    case VarType::feed_minibatch:
    case VarType::fetch_list:
    case VarType::reader:
      return false;
    default:
      return var.persistable();
  }
}

bool is_saved_parameter(const Var& var) { return var.is_parameter(); }

bool is_optimizer_state(const Var& var) {
  return !var.is_parameter() && !var.need_check_feed() && is_persistable(var) &&
         var.type() != VarType::raw;
}

VarList select_vars(const Program& program, const std::function<bool(const Var&)>& wanted) {
  VarList vars;
  std::set<std::string> names;
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (const Var* var : program.block(static_cast<int>(i)).vars()) {
      if (wanted(*var) && names.insert(var->name()).second) vars.push_back(var);
    }
  }
  return vars;
}

void add_vars(DirectorySave& save, const Scope& scope, const VarList& vars,
              const std::string& filename) {
  const VarList saved = with_bytes(vars);
  if (!filename.empty()) return write_all(scope, by_name(saved), save.file(filename));
  each_var("saving", saved, [&](const Var& var) { write_from(scope, var, save.file(var.name())); });
}

void save_vars(const Scope& scope, const std::string& dirname, const VarList& vars,
               const std::string& filename) {
  if (nothing_selected(with_bytes(vars))) return;
  const std::shared_lock lock(scope.run_lock());
  const auto [directory, name] =
      filename.empty() ? std::pair(dirname, std::string()) : split_path(path_of(dirname, filename));
  DirectorySave save(directory);
  add_vars(save, scope, vars, name);
  save.commit();
}

void save_params(const Scope& scope, const std::string& dirname, const Program& program,
                 const std::string& filename) {
  save_vars(scope, dirname, select_vars(program, is_saved_parameter), filename);
}

void save_persistables(const Scope& scope, const std::string& dirname, const Program& program,
                       const std::string& filename) {
  save_vars(scope, dirname, select_vars(program, is_persistable), filename);
}

void load_vars(Scope& scope, const std::string& dirname, const VarList& vars,
               const std::string& filename) {
  const VarList loaded = with_bytes(vars);
  if (nothing_selected(loaded)) return;
  if (!filename.empty()) {
    const auto [directory, name] = split_path(path_of(dirname, filename));
    ByteSource file = SavedDirectory(directory).open(name);
    return set_values(scope, read_all(file, by_name(loaded)));
  }
  const SavedDirectory saved(dirname);
  Values values;
  each_var("loading", loaded, [&](const Var& var) {
    ByteSource file = saved.open(var.name());
    values.emplace_back(var.name(), read_one(file, var));
    check_end(file, "the variable");
  });
  set_values(scope, std::move(values));
}

void load_params(Scope& scope, const std::string& dirname, const Program& program,
                 const std::string& filename) {
  load_vars(scope, dirname, select_vars(program, is_saved_parameter), filename);
}

void load_persistables(Scope& scope, const std::string& dirname, const Program& program,
                       const std::string& filename) {
  load_vars(scope, dirname, select_vars(program, is_persistable), filename);
}

std::string serialize_vars(const Scope& scope, const VarList& vars) {
  const std::shared_lock lock(scope.run_lock());
  StringSink sink;
  write_all(scope, by_name(with_bytes(vars)), sink);
  return std::move(sink.text);
}

void deserialize_vars(Scope& scope, const VarList& vars, std::string_view bytes) {
  ByteSource source = ByteSource::memory(bytes, "the given bytes");
  set_values(scope, read_all(source, by_name(with_bytes(vars))));
}

void check_loaded_shape(const Var& var, const Variable& value, const std::string& file) {
  if (!var.is_parameter() || value.kind() != Kind::dense) return;
  const Tensor& tensor = value.tensor();
  if (var.shape().may_equal(tensor.shape())) return;
  throw Error(ErrorKind::precondition, cat("parameter ", var.name(), " has the shape ", var.shape(),
                                           " in the program and ", tensor.shape(), " in ", file))
      .fix("load a file that was saved from this network");
}

void check_end(const ByteSource& from, const std::string& what) {
  if (from.at_end()) return;
  throw Error(ErrorKind::unavailable, cat(from.name(), " has ", from.left(), " bytes after ", what))
      .fix("load the variables that were saved, all of them; if they are, the file is damaged");
}

void set_values(Scope& scope, Values values) {
  const std::unique_lock lock(scope.run_lock());
  for (auto& named : values) {
    Variable& value = named.second;
    Variable* found = scope.find(named.first);
    Variable& variable = found ? *found : scope.var(named.first);
    if (value.kind() == Kind::dense && variable.kind() == Kind::dense) {
      take_value(variable.tensor(), value.tensor());
    } else {
      variable = std::move(value);
    }
  }
}

}  // namespace trireme
