// Gradient ops in the making: a list that grows backwards from the targets, before it is appended.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"

namespace trireme {

struct GradOp {
  OpSpec spec;
  SourceLine line;  // where the user asked for the forward op
};

using Renames = std::map<std::string, std::string, std::less<>>;

class GradList {
 public:
  // `order`: how often gradients were appended to this program, this time included.
  GradList(Block& block, std::set<std::string> no_grad, int order)
      : block_(block), no_grad_(std::move(no_grad)), order_(order) {}

  // The gradient of `target` starts with this op, whose only output is renamed as needed.
  void seed(const std::string& target, GradOp op);
  // The gradient of `target` is the variable `name`, which is there already.
  void seed_with(const std::string& target, const std::string& name);
  // Adds the gradient ops of `op`. `recomputed`: forward values and the names they have by now.
  void differentiate(const Op& op, const Renames& recomputed = {});
  // Adds a forward op that is run again.
  void repeat(GradOp op) { ops_.push_back(std::move(op)); }
  // Where several ops write one gradient, each gets a name of its own and a `sum` joins them.
  std::vector<GradOp> finish();

  // The name of a variable's gradient; empty when nothing computes it.
  std::string gradient_of(const std::string& name) const;
  // The variable whose gradient this is; empty when it is no gradient of this list.
  std::string forward_of(std::string_view gradient) const;

 private:
  std::string current_name(const std::string& gradient) const;
  std::string new_name(const std::string& gradient);
  void rename_gradients(const Op& op, OpSpec& spec);
  bool complete_arriving(const Op& op, const OpSpec& spec, const Renames& recomputed);
  void add(GradOp op);

  Block& block_;
  std::set<std::string> no_grad_;
  int order_;
  std::vector<GradOp> ops_;
  std::set<std::string> produced_;
  Renames renames_;  // plain gradient name -> the one used, where the plain one is taken
  std::map<std::string, std::string, std::less<>> forward_of_;
};

bool is_grad_name(std::string_view name);  // "x@GRAD", "x@GRAD@RENAME@block0@1"
void rename_in(Slots& slots, const Renames& renames);
std::set<std::string> names_in(const Slots& slots);  // without @EMPTY@

}  // namespace trireme
