// save(program, path) and load(program, path): <path>.pdparams, <path>.pdopt and <path>.pdmodel.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/scope.h"
#include "io/pickle.h"
#include "ir/program.h"

namespace trireme {

using State = std::map<std::string, Tensor>;

// .pdparams holds the parameters, .pdopt the other persistables (always written), .pdmodel the
// program.
void save_state(const Program& program, const std::string& path, const Scope& scope,
                const PickleOptions& options = {});

struct LoadStateOptions {
  // Variables that are not in the scope yet are made; otherwise that is an Error.
  bool create = true;
  // For one file that save_vars and its like wrote: the variables it holds.
  std::vector<std::string> var_list = {};
};
// Also what save_vars, save_params and save_persistables wrote, when there is no .pdparams: a
// directory, or one file with var_list.
void load_state(const Program& program, const std::string& path, Scope& scope,
                const LoadStateOptions& options = {});

// The values alone, without a program: of .pdparams and .pdopt, or of what save_vars wrote.
State load_program_state(const std::string& path, const std::vector<std::string>& var_list = {});
// Shape and type of each must agree with the program's variable; unused names are warned about.
void set_program_state(const Program& program, const State& state, Scope& scope);

}  // namespace trireme
