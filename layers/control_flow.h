// Blocks that run under a condition: ConditionalBlock and Switch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/arguments.h"

namespace trireme::layers {

// Ops appended between begin() and complete() run only where the condition holds.
class ConditionalBlock {
 public:
  // Scalar: one bool variable decides. Otherwise: runs when no input is empty.
  explicit ConditionalBlock(Vars inputs, bool is_scalar_condition = false,
                            const std::string& name = {}, SourceLine line = SourceLine::here());
  ConditionalBlock(ConditionalBlock&&) = default;

  void begin();     // makes the sub-block; it becomes current
  void complete();  // back to the parent, and appends the conditional_block op there
  void abandon();   // back to the parent without an op: what an exception in between calls for
  void run(const std::function<void()>& build);  // begin, build, complete

 private:
  Vars inputs_;
  bool is_scalar_condition_;
  SourceLine line_;
  std::shared_ptr<Program> program_;
  int block_ = -1;
};

// The first case whose condition holds runs, or else the default:
//   Switch pick;
//   pick.when(step < boundary, [&] { assign(small, &lr); });
//   pick.otherwise([&] { assign(large, &lr); });
class Switch {
 public:
  // A case, before its block is begun (Python enters and leaves it as a context).
  ConditionalBlock when(Var& condition, SourceLine line = SourceLine::here());
  ConditionalBlock otherwise(SourceLine line = SourceLine::here());

  void when(Var& condition, const std::function<void()>& build,
            SourceLine line = SourceLine::here());
  void otherwise(const std::function<void()>& build, SourceLine line = SourceLine::here());

 private:
  Var* none_before_ = nullptr;  // true while no case so far has held
};

}  // namespace trireme::layers
