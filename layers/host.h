// Layers that do something in the caller's process while the program runs: print, assert, call
// back.
#pragma once

#include <string>
#include <vector>

#include "layers/arguments.h"

namespace trireme::layers {

struct PrintOptions {
  int first_n = -1;  // how many times to print; not positive: always
  std::string message = {};
  int summarize = 20;
  bool print_tensor_name = true;
  bool print_tensor_type = true;
  bool print_tensor_shape = true;
  bool print_tensor_layout = true;
  bool print_tensor_lod = true;
  std::string print_phase = "both";  // forward, backward, both
};
// Prints the input whenever the result is computed; the result is the input.
Var& print(Var& input, const PrintOptions& options = {}, SourceLine line = SourceLine::here());

struct AssertOptions {
  Vars data = {};  // shown when the condition is false
  int64_t summarize = 20;
  std::string name = {};
};
void assert_true(Var& condition, const AssertOptions& options = {},
                 SourceLine line = SourceLine::here());

struct PyFuncOptions {
  int backward = -1;  // what register_py_func gave; -1: no gradient
  std::vector<std::string> skip_vars_in_backward_input = {};
};
// Calls the function registered as `function` (ops/host/py_func.h); `out` has shapes and types
// already.
Vars py_func(int function, const Vars& x, const Vars& out, const PyFuncOptions& options = {},
             SourceLine line = SourceLine::here());

}  // namespace trireme::layers
