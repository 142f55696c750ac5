// Saves and loads variables of a scope: one file per variable, or all in one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/directory_save.h"
#include "core/scope.h"
#include "ir/program.h"

namespace trireme {

// Which variables of a program, over all its blocks; each name once, in order of appearance.
using VarList = std::vector<const Var*>;
VarList select_vars(const Program& program, const std::function<bool(const Var&)>& wanted);
bool is_persistable(const Var& var);  // and holds a value: no feed or fetch list, no reader
bool is_saved_parameter(const Var& var);
// Persistable, and neither a parameter nor fed: what optimizers keep.
bool is_optimizer_state(const Var& var);

// `filename` empty: files dirname/<name>. Else one file dirname/filename, sorted by name. A save
// that is interrupted leaves all of the old files or all of the new ones.
void save_vars(const Scope& scope, const std::string& dirname, const VarList& vars,
               const std::string& filename = {});
void save_params(const Scope& scope, const std::string& dirname, const Program& program,
                 const std::string& filename = {});
void save_persistables(const Scope& scope, const std::string& dirname, const Program& program,
                       const std::string& filename = {});
// Files of a save that holds others as well. The caller holds the scope's lock.
void add_vars(DirectorySave& save, const Scope& scope, const VarList& vars,
              const std::string& filename = {});

// All is read and compared with the program's shapes before the first variable changes.
void load_vars(Scope& scope, const std::string& dirname, const VarList& vars,
               const std::string& filename = {});
void load_params(Scope& scope, const std::string& dirname, const Program& program,
                 const std::string& filename = {});
void load_persistables(Scope& scope, const std::string& dirname, const Program& program,
                       const std::string& filename = {});

// The same as bytes: what a combined file holds.
std::string serialize_vars(const Scope& scope, const VarList& vars);
void deserialize_vars(Scope& scope, const VarList& vars, std::string_view bytes);

// Gives variables of `scope` these values, under the scope's lock.
void set_values(Scope& scope, std::vector<std::pair<std::string, Variable>> values);
// An Error unless the source ends here.
void check_end(const ByteSource& from, const std::string& after);
// An Error (precondition) unless the parameter's shape agrees with what was loaded.
void check_loaded_shape(const Var& var, const Variable& value, const std::string& file);

}  // namespace trireme
