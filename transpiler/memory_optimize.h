// memory_optimize and release_memory: programs that name fewer variables, or end their lives early.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "ir/program.h"
#include "transpiler/report.h"

namespace trireme {

struct MemoryOptimizeOptions {
  std::set<std::string> skip_opt_set = {};  // variables that keep their names
  bool print_log = false;
  int level = 0;            // 0: only equal shapes share a name; 1: also smaller in larger
  bool skip_grads = false;  // gradients of parameters keep their names
  // Where print_log's lines go; null: standard output.
  PrintLine print = {};
};

// Gives the outputs of ops names of variables that are dead by then, in every block. In place.
// Values do not change: the plan of a run gives each its own memory for as long as it lives, and a
// fetch of a variable that lost its name is answered from the op that computes it.
void memory_optimize(Program& program, const MemoryOptimizeOptions& options = {});

// Inserts a delete_var behind the last op that needs a variable, in every block. In place.
void release_memory(Program& program, const std::set<std::string>& skip_opt_set = {});

// Bytes of the distinct temporary names that ops use, with `batch` for unknown extents.
int64_t temporary_bytes(const Program& program, int64_t batch);

}  // namespace trireme
