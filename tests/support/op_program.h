// Programs of one op, and of one op with its gradient. For tests of ops.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "runtime/executor.h"

namespace trireme::testing {

using Tensors = std::map<std::string, std::vector<Tensor>>;

struct OpCall {
  std::string type;
  Tensors inputs;
  Attrs attrs = {};
  std::map<std::string, int> out_counts = {};  // duplicable outputs; others 1
  std::vector<std::string> outputs = {};       // slots to compute; empty: all of the row
  bool cut = false;  // cut into parts whatever the size, and share them out
  std::map<std::string, SelectedRows> sparse_inputs = {};  // slot -> its only operand
};

Tensors in_float32(Tensors tensors);  // those of float64 are cast

struct OpProgram {
  std::shared_ptr<Program> program = Program::create();
  Feeds feeds;
  std::map<std::string, SelectedRows> states;               // what the scope holds before a run
  std::map<std::string, std::vector<std::string>> outputs;  // slot -> variables
  Op* op = nullptr;
};

// `hide_batch`: the first extent of every input is declared unknown.
OpProgram build_op(const OpCall& call, bool hide_batch = false);

struct OpGradient {
  Tensors weights;                            // by output slot: what the outputs' gradients are fed
  std::map<std::string, std::string> wanted;  // gradient variable -> input variable
};

// Appends the gradient op for every floating input. `outputs` is what the op itself gives: the
// floating ones' gradients are fed at random.
OpGradient append_gradient(OpProgram& forward, const Tensors& outputs, uint64_t weight_seed = 1);

}  // namespace trireme::testing
