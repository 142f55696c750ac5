// A small trained network for tests of files.
#pragma once

#include <memory>

#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {

// x [-1, 4] -> fc -> "out"; trained with Adam for a step.
struct Network {
  UniqueNameGuard names;
  std::shared_ptr<Program> main = Program::create();
  std::shared_ptr<Program> startup = Program::create();
  Scope scope;
  Executor executor;
  std::string out;
  std::string loss;

  Network() {
    const ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {4});
    Var& hidden = layers::fc(x, {.size = 3, .act = "relu"});
    Var& prediction = layers::fc(hidden, {.size = 2});
    Var& mean = layers::mean(prediction);
    out = prediction.name();
    loss = mean.name();
    optimizer::Adam(0.01).minimize(mean);
    executor.run(*startup, {}, {}, {.scope = &scope});
    executor.run(*main, {{"x", input()}}, {}, {.scope = &scope});
  }

  static Tensor input() { return floats({2, 4}, {1, -2, 3, 0.5f, 2, 1, -1, 4}); }
  std::shared_ptr<Program> test_program() const { return clone(*main, true); }
  std::vector<double> predict(const Program& program, Scope& with, const std::string& fetch) {
    return numbers(executor.run_one(program, {{"x", input()}}, fetch, {.scope = &with}));
  }
  std::vector<double> predict() { return predict(*test_program(), scope, out); }
};

}  // namespace trireme::testing
