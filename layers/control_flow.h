// Blocks that run under a condition or again and again: ConditionalBlock, Switch, While, IfElse,
// and the functions built on them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layers/arguments.h"
#include "layers/sub_block.h"

namespace trireme::layers {

// Ops appended between begin() and complete() run only where the condition holds.
class ConditionalBlock : public SubBlock {
 public:
  // Scalar: one bool variable decides. Otherwise: runs when no input is empty.
  explicit ConditionalBlock(Vars inputs, bool is_scalar_condition = false,
                            const std::string& name = {}, SourceLine line = SourceLine::here());
  void complete() override;

 private:
  Vars inputs_;
  bool is_scalar_condition_;
  SourceLine line_;
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

// Ops appended between begin() and complete() run as long as the condition holds. They must write
// it, and see what the pass before wrote to variables outside.
class While : public SubBlock {
 public:
  explicit While(Var& condition, bool is_test = false, const std::string& name = {},
                 SourceLine line = SourceLine::here());
  void complete() override;

 private:
  Var* condition_;
  bool is_test_;
  SourceLine line_;
};

// Functions that build part of a program and return what it computes.
using Build = std::function<std::vector<Var*>()>;
using BuildNext = std::function<std::vector<Var*>(const std::vector<Var*>&)>;
using BuildCondition = std::function<Var&(const std::vector<Var*>&)>;

// As long as `condition` of the loop variables holds, `body` computes their next values. Returns
// the loop variables, which hold the last ones.
std::vector<Var*> while_loop(const BuildCondition& condition, const BuildNext& body,
                             const Vars& loop_vars, bool is_test = false,
                             const std::string& name = {}, SourceLine line = SourceLine::here());

// What one of the two computes; both return as many variables. An empty function computes nothing.
std::vector<Var*> cond(Var& pred, const Build& true_fn, const Build& false_fn,
                       const std::string& name = {}, SourceLine line = SourceLine::here());

// The first pair whose condition holds, or else the default (without one: the last pair).
std::vector<Var*> case_(std::vector<std::pair<Var*, Build>> pairs, Build otherwise = {},
                        const std::string& name = {}, SourceLine line = SourceLine::here());
// The branch of this number, or else the default (without one: the branch of the largest number).
std::vector<Var*> switch_case(Var& branch_index, std::map<int, Build> branches,
                              Build otherwise = {}, const std::string& name = {},
                              SourceLine line = SourceLine::here());

// Some rows go one way, the others another:
//   IfElse by_row(mask);
//   by_row.true_block([&] { by_row.output(fc(by_row.input(x), ...)); });
//   by_row.false_block([&] { by_row.output(relu(by_row.input(x))); });
//   Var& y = *by_row()[0];
class IfElse {
 public:
  explicit IfElse(Var& cond, const std::string& name = {}, SourceLine line = SourceLine::here());

  // One side, before its block is begun (Python enters and leaves it as a context).
  SubBlock& side(bool of_true);
  void enter(bool of_true);  // after side().begin(): input and output mean this side
  void leave();              // before side().complete()
  void true_block(const std::function<void()>& build);
  void false_block(const std::function<void()>& build);

  Var& input(Var& x, SourceLine line = SourceLine::here());  // the rows of x that go this way
  void output(const Vars& outs, SourceLine line = SourceLine::here());
  // All outputs, rows of both sides in their order; those of one side where the other has none.
  std::vector<Var*> operator()(SourceLine line = SourceLine::here());

 private:
  void run_side(bool of_true, const std::function<void()>& build);

  Var& cond_;
  std::string name_;
  ConditionalBlock sides_[2];  // false, true
  std::optional<bool> inside_;
  std::map<const Var*, std::pair<Var*, Var*>> inputs_;  // the rows of each side: false, true
  std::vector<Var*> outputs_[2];
};

}  // namespace trireme::layers
