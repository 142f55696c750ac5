// Gradient ops in the making: a list that grows backwards from the targets, before it is appended.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/block_uses.h"
#include "ir/program.h"

namespace trireme {

class GradList;

struct GradOp {
  OpSpec spec;
  SourceLine line;                            // where the user asked for the forward op
  std::shared_ptr<GradList> inner = nullptr;  // what its gradient block holds, if it has one
};

// What a forward op reads and writes: values, not gradients, whatever they are called.
struct ForwardNames {
  explicit ForwardNames(const Op& op);
  bool contains(const std::string& name) const {
    return read.contains(name) || written.contains(name);
  }
  std::set<std::string> read, written;
};

struct Border;       // schema.h
struct ReachedBody;  // grad_block.cc

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
  // The gradient of `name` is there already when the ops of this list begin; they add to it.
  void arrive(const std::string& name);
  // After the gradient of `op`, gradients of what it overwrites are those of the versions before.
  void overwrite(const Op& op);
  // Adds a forward op that is run again.
  void repeat(GradOp op) { ops_.push_back(std::move(op)); }
  // Where several ops write one gradient, each gets a name of its own and a `sum` joins them.
  std::vector<GradOp> finish();

  Block& block() const { return block_; }
  // The name of a variable's gradient; empty when nothing computes it.
  std::string gradient_of(const std::string& name) const;
  // The variable whose gradient this is; empty when it is no gradient of this list.
  std::string forward_of(std::string_view gradient) const;

 private:
  // Ops that own a sub-block (grad_block.cc).
  void differentiate_sub_block(const Op& op);
  std::shared_ptr<GradList> differentiate_body(const Op& op, const ReachedBody& reached,
                                               const Border& border,
                                               const std::set<std::string>& no_grad);
  OpSpec sub_block_gradient(const Op& op, const Border& border, const ReachedBody& reached,
                            const std::set<std::string>& no_grad, const GradList& inner);
  void name_empty_arrays(const ReachedBody& reached, const Border& border, OpSpec& spec);
  const BlockUses& uses_of(const Block& block);
  std::string keep_version(const Op& op, const std::string& name, bool before);
  void keep_versions(const Op& op, const ForwardNames& names, OpSpec& spec);
  void keep_versions_inside(const Op& op, GradList& inner);
  void zero_where_run(const Op& op, const std::string& condition, const std::string& name);
  bool arrives(const std::string& name) const;
  std::string current_name(const std::string& gradient) const;
  std::string new_name(const std::string& gradient);
  void rename_gradients(const ForwardNames& names, OpSpec& spec);
  bool complete_arriving(const Op& op, const ForwardNames& names, const OpSpec& spec,
                         const Renames& recomputed);
  void add(GradOp op);

  Block& block_;
  std::set<std::string> no_grad_;
  int order_;
  std::vector<GradOp> ops_;
  std::set<std::string> produced_;  // gradients of the versions the list has come to
  std::set<std::string> ever_produced_;
  std::set<std::string> arriving_;
  std::map<size_t, std::set<std::string>> overwritten_;  // gradients, by the op they end before
  std::map<const Block*, BlockUses> uses_;  // of blocks with forward ops, as the list began
  Renames renames_;  // plain gradient name -> the one used, where the plain one is taken
  std::map<std::string, std::string, std::less<>> forward_of_;
};

// Variables no gradient goes through: those that stop it, those the caller named, and whole
// numbers.
std::set<std::string> without_gradient(const Block& block, const std::set<std::string>& named);

// Of `ops` those that `targets` are computed by, and of these the ones that depend on `inputs` if
// any are given.
std::vector<Op*> find_path(const std::vector<Op*>& ops, std::set<std::string> targets,
                           std::set<std::string> inputs, const std::set<std::string>& no_grad);

bool is_grad_name(std::string_view name);  // "x@GRAD", "x@GRAD@RENAME@block0@1"
void rename_in(Slots& slots, const Renames& renames);
std::set<std::string> names_in(const Slots& slots);  // without @EMPTY@

}  // namespace trireme
