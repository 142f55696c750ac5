// Finds the ops between targets and inputs, lists their gradient ops and appends them with
// variables.
#include "ir/backward.h"

#include <algorithm>
#include <utility>

#include "ir/grad_ops.h"
#include "ir/recompute.h"
#include "ir/schema.h"

namespace trireme {
namespace {

// While it lives, ops that callbacks append belong to the backward part.
class BackwardRole {
 public:
  explicit BackwardRole(Program& program)
      : program_(program), role_(program.role), vars_(std::exchange(program.role_vars, {})) {
    program.role = op_role::kBackward;
  }
  ~BackwardRole() {
    program_.role = role_;
    program_.role_vars = std::move(vars_);
  }
  BackwardRole(const BackwardRole&) = delete;
  BackwardRole& operator=(const BackwardRole&) = delete;

 private:
  Program& program_;
  int role_;
  std::vector<std::string> vars_;
};

bool touches(const Slots& slots, const std::set<std::string>& names) {
  for (const auto& [slot, held] : slots) {
    for (const std::string& name : held) {
      if (names.contains(name)) return true;
    }
  }
  return false;
}

}  // namespace

std::set<std::string> without_gradient(const Block& block, const std::set<std::string>& named) {
  std::set<std::string> names = named;
  for (const Var* var : block.vars()) {
    const bool numbers =
        var->type() == VarType::lod_tensor || var->type() == VarType::lod_tensor_array;
    const bool whole = var->has_shape() && numbers && !is_floating(var->dtype());
    if (var->stop_gradient() || whole) names.insert(var->name());
  }
  return names;
}

namespace {

// An op without a gradient ends the way, as in the original, where it has none there either. Two
// kinds have one there and must not end it silently: control flow, and gradients of gradients.
bool has_gradient(const Op& op, const std::set<std::string>& no_grad) {
  const OpSchema& row = op_table().get(op.type());
  if (row.differentiable()) return true;
  if (!op.sub_block() && !row.is_gradient()) return false;
  const std::set<std::string> inputs = names_in(op.inputs());
  const bool asked = std::any_of(inputs.begin(), inputs.end(),
                                 [&](const std::string& name) { return !no_grad.contains(name); });
  if (!asked) return false;
  Error error(ErrorKind::unimplemented, cat("there is no gradient of ", op.type(), " yet"));
  throw error.fix("set stop_gradient on its outputs if no gradient has to go through it");
}

}  // namespace

std::vector<Op*> find_path(const std::vector<Op*>& ops, std::set<std::string> targets,
                           std::set<std::string> inputs, const std::set<std::string>& no_grad) {
  std::vector<bool> relevant(ops.size(), true);
  for (size_t i = 0; i < ops.size() && !inputs.empty(); ++i) {
    relevant[i] = touches(ops[i]->inputs(), inputs);
    if (!relevant[i]) continue;
    for (const std::string& name : names_in(ops[i]->outputs())) {
      if (!no_grad.contains(name)) inputs.insert(name);
    }
  }
  std::set<std::string>& needed = targets;
  std::vector<Op*> path;
  for (size_t i = ops.size(); i > 0; --i) {
    Op* op = ops[i - 1];
    if (!relevant[i - 1] || !touches(op->outputs(), needed)) continue;
    try {
      if (!has_gradient(*op, no_grad)) continue;
    } catch (Error& error) {
      add_op_context(error, *op);
      throw;
    }
    path.push_back(op);
    for (const std::string& name : names_in(op->inputs())) {
      if (!no_grad.contains(name)) needed.insert(name);
    }
  }
  std::reverse(path.begin(), path.end());
  return path;
}

namespace {

std::set<std::string> names_of(const std::vector<Var*>& vars) {
  std::set<std::string> names;
  for (const Var* var : vars) names.insert(var->name());
  return names;
}

// What has run when a block ends: the ops of the blocks around it, then its own. The op that will
// run the block is not there yet: the block is still being built.
std::vector<Op*> ops_up_to(const Block& block) {
  std::vector<Op*> ops;
  if (const Block* around = block.parent()) ops = ops_up_to(*around);
  for (Op* op : block.ops()) ops.push_back(op);
  return ops;
}

std::set<std::string> without_gradient_up_to(const Block& block, std::set<std::string> names) {
  for (const Block* at = &block; at; at = at->parent()) names = without_gradient(*at, names);
  return names;
}

// All ops, last to first, those on the path with their gradients.
void differentiate(GradList& gradients, const std::vector<Op*>& ops, const std::vector<Op*>& path) {
  const std::set<const Op*> on_path(path.begin(), path.end());
  for (size_t i = ops.size(); i > 0; --i) {
    if (on_path.contains(ops[i - 1])) gradients.differentiate(*ops[i - 1]);
    gradients.overwrite(*ops[i - 1]);
  }
}

// Gradients in a branch are the branch's own: another branch gives its own the same names.
int count_backward(const Block& into) {
  int& count = into.program().backward_count;
  return into.parent_index() < 0 ? ++count : count;
}

void refuse_checkpoints_in_branch(const Block& into) {
  if (into.parent_index() < 0) return;
  throw Error(ErrorKind::unimplemented,
              cat("gradients in block ", into.index(), " cannot recompute between checkpoints"))
      .fix("call it outside of the branch or loop, or give no checkpoints");
}

// Creates the variables an op writes, with the facts of those whose gradients they are. In a
// sub-block gradients are local, whatever blocks around it have.
std::vector<std::pair<Var*, const Var*>> create_outputs(Block& block, const OpSpec& spec,
                                                        const GradList& gradients) {
  std::vector<std::pair<Var*, const Var*>> made;
  const bool inside = block.parent_index() >= 0;
  const std::set<std::string> read = names_in(spec.inputs);
  for (const std::string& name : names_in(spec.outputs)) {
    if (inside && is_grad_name(name) ? block.find_var(name) || read.contains(name)
                                     : block.find_var_recursive(name) != nullptr) {
      continue;
    }
    const std::string forward = gradients.forward_of(name);
    const Var* like = forward.empty() ? nullptr : block.find_var_recursive(forward);
    VarSpec var{.name = name, .has_shape = false};
    if (like) {
      var.type = like->type();
      var.dtype = like->dtype();
      var.shape = like->shape();
      var.lod_level = like->lod_level();
      var.has_shape = like->has_shape();
    }
    made.emplace_back(&block.create_var(std::move(var)), like);
  }
  return made;
}

using Callbacks = std::vector<std::function<void(Block&, Op&)>>;

void append_all(Block& block, GradList& gradients, const Callbacks& callbacks = {});

Op& append_grad_op(Block& block, GradOp op, const GradList& gradients, const Callbacks& callbacks) {
  if (op.inner) append_all(op.inner->block(), *op.inner, callbacks);
  Attrs& attrs = op.spec.attrs;
  attrs.try_emplace("op_role", int32_t{op_role::kBackward});
  attrs.try_emplace("op_role_var", std::vector<std::string>{});
  attrs.try_emplace("op_namescope", std::string("/"));
  attrs.try_emplace("op_device", std::string());
  try {
    check_and_fill(op_table().get(op.spec.type), op.spec);
  } catch (Error& error) {
    error.in(op.spec.type).at(op.line);
    throw;
  }
  const auto made = create_outputs(block, op.spec, gradients);
  Op& appended = block.insert_raw_op(block.size(), std::move(op.spec), op.line);
  infer_op(appended);
  // A gradient has its variable's shape and type, also where the rule knew less.
  for (const auto& [var, like] : made) {
    if (!like || !like->has_shape()) continue;
    if (var->dtype() != like->dtype()) var->set_dtype(like->dtype());
    if (!(var->shape() == like->shape())) var->set_shape(like->shape());
  }
  return appended;
}

void append_all(Block& block, GradList& gradients, const Callbacks& callbacks) {
  const BackwardRole role(block.program());
  for (GradOp& op : gradients.finish()) {
    Op& appended = append_grad_op(block, std::move(op), gradients, callbacks);
    for (const auto& callback : callbacks) callback(block, appended);
  }
}

Op* last_writer(const Block& block, const std::string& name) {
  for (size_t i = block.size(); i > 0; --i) {
    for (const auto& [slot, names] : block.op(i - 1).outputs()) {
      if (std::find(names.begin(), names.end(), name) != names.end()) return &block.op(i - 1);
    }
  }
  return nullptr;
}

// Data parallel places its collectives by this attribute.
void mark_pair(const BlockUses& uses, const std::string& parameter, const std::string& gradient) {
  const std::vector<size_t>& writers = uses.of(gradient).writes;
  promise(!writers.empty(), "a parameter's gradient is written by an op");
  Op* writer = &uses.op(writers.back());
  std::vector<std::string> pairs = {parameter, gradient};
  const auto earlier = writer->attr_or<std::vector<std::string>>("op_role_var", {});
  pairs.insert(pairs.end(), earlier.begin(), earlier.end());
  writer->set_attr("op_role_var", std::move(pairs));
}

// Where gradient ops go: the current block. It must see what the targets' block computes.
Block& block_for_gradients(const Block& targets, std::string_view what) {
  Program& program = targets.program();
  for (const Block* block = &program.current_block(); block; block = block->parent()) {
    if (block == &targets) return program.current_block();
  }
  throw Error(cat(what, " is called in block ", program.current_index(),
                  ", which does not see block ", targets.index(), " of the targets"))
      .fix("call it in the block that computes the targets, or inside of it");
}

GradOp ones(const Var& like, const std::vector<int64_t>& shape, Attrs attrs,
            const SourceLine& line) {
  attrs.emplace("shape", shape);
  attrs.emplace("value", 1.0f);
  attrs.emplace("dtype", static_cast<int32_t>(like.dtype()));
  return {{.type = "fill_constant", .outputs = {{"Out", {""}}}, .attrs = std::move(attrs)}, line};
}

std::vector<std::string> parameters_asked_for(const Program& program,
                                              const BackwardOptions& options) {
  if (options.only_listed || !options.parameter_list.empty()) return options.parameter_list;
  std::vector<std::string> names;
  for (const Var* var : program.global_block().vars()) {
    if (var->is_parameter() && var->parameter()->trainable) names.push_back(var->name());
  }
  return names;
}

}  // namespace

ParamGrads append_backward(Var& loss, const BackwardOptions& options) {
  Block& block = loss.block();
  Program& program = block.program();
  Block& into = block_for_gradients(block, "append_backward");
  if (loss.has_shape() && !loss.shape().numel().may_equal(1)) {
    throw Error(
        cat("the loss ", loss.name(), " has shape ", loss.shape(), "; it must have one element"))
        .fix("take the mean or the sum of it first");
  }
  Op* loss_op = last_writer(block, loss.name());
  if (!loss_op) {
    throw Error(cat("no op computes the loss ", loss.name()))
        .fix("give a variable that an op of this program writes");
  }
  const std::set<std::string> no_grad = without_gradient_up_to(block, options.no_grad);
  const std::vector<Op*> ops = ops_up_to(block);
  const std::vector<Op*> path = find_path(ops, {loss.name()}, {}, no_grad);

  loss_op->set_attr("op_role", int32_t{op_role::kForward | op_role::kLoss});
  GradList gradients(into, no_grad, count_backward(into));
  const int32_t role = op_role::kBackward | op_role::kLoss;
  gradients.seed(loss.name(), ones(loss, {1},
                                   {{"op_role", role},
                                    {"op_device", loss_op->attr_or<std::string>("op_device", "")}},
                                   loss_op->line()));
  if (options.checkpoints.empty()) {
    differentiate(gradients, ops, path);
  } else {
    refuse_checkpoints_in_branch(into);
    differentiate_with_checkpoints(gradients, block, path, options.checkpoints);
  }
  append_all(into, gradients, options.callbacks);

  ParamGrads pairs;
  const BlockUses uses(into);
  for (const std::string& name : parameters_asked_for(program, options)) {
    Var* parameter = program.global_block().find_var(name);
    if (!parameter) {
      throw Error(ErrorKind::not_found,
                  cat("parameter_list names ", name, ", which is not a variable"));
    }
    const std::string gradient = gradients.gradient_of(name);
    if (gradient.empty()) continue;  // the loss does not depend on it
    pairs.emplace_back(parameter, &into.var(gradient));
    mark_pair(uses, name, gradient);
  }
  return pairs;
}

std::vector<Var*> gradients(const std::vector<Var*>& targets, const std::vector<Var*>& inputs,
                            const std::vector<Var*>& target_gradients,
                            const std::set<std::string>& no_grad_names) {
  if (targets.empty()) throw Error("gradients needs at least one target");
  if (!target_gradients.empty() && target_gradients.size() != targets.size()) {
    throw Error(cat("there are ", targets.size(), " targets but ", target_gradients.size(),
                    " target_gradients"))
        .fix("give one gradient, or None, for each target");
  }
  Block& block = targets[0]->block();
  Program& program = block.program();
  Block& into = block_for_gradients(block, "gradients");
  for (const Var* var : targets) {
    if (&var->block() != &block) {
      throw Error(
          cat("targets ", targets[0]->name(), " and ", var->name(), " are in different blocks"));
    }
  }
  for (const Var* var : inputs) {
    if (&var->block().program() != &program) {
      throw Error(cat("input ", var->name(), " is not in the program of the targets"));
    }
  }
  const std::set<std::string> no_grad = without_gradient_up_to(block, no_grad_names);
  const std::vector<Op*> ops = ops_up_to(block);
  const std::vector<Op*> path = find_path(ops, names_of(targets), names_of(inputs), no_grad);
  std::set<std::string> read;
  for (const Op* op : path) read.merge(names_in(op->inputs()));

  GradList list(into, no_grad, count_backward(into));
  for (size_t i = 0; i < targets.size(); ++i) {
    const Var& target = *targets[i];
    const Op* writer = last_writer(block, target.name());
    const SourceLine line = writer ? writer->line() : SourceLine{};
    const Var* given = target_gradients.empty() ? nullptr : target_gradients[i];
    if (!given) {
      const std::string shape_name = target.name() + "_shape";
      into.create_var({.name = shape_name,
                       .dtype = DType::int32,
                       .shape = {target.shape().rank()},
                       .stop_gradient = true});
      list.repeat({{.type = "shape",
                    .inputs = {{"Input", {target.name()}}},
                    .outputs = {{"Out", {shape_name}}}},
                   line});
      GradOp seed = ones(target, target.shape().to_vector(), {}, line);
      seed.spec.inputs["ShapeTensor"] = {shape_name};
      list.seed(target.name(), std::move(seed));
    } else {
      if (&given->block() != &block || !given->shape().may_equal(target.shape())) {
        throw Error(cat("the gradient ", given->name(), " ", given->shape(), " given for target ",
                        target.name(), " ", target.shape(), " has another shape or block"));
      }
      // Where others add to this gradient, it is copied: the given variable stays as it is.
      const bool alone = std::count(targets.begin(), targets.end(), targets[i]) == 1;
      if (read.contains(target.name()) || !alone) {
        list.seed(
            target.name(),
            {{.type = "assign", .inputs = {{"X", {given->name()}}}, .outputs = {{"Out", {""}}}},
             line});
      } else {
        list.seed_with(target.name(), given->name());
      }
    }
  }
  differentiate(list, ops, path);
  append_all(into, list);

  std::vector<Var*> found;
  for (const Var* var : inputs) {
    const std::string gradient = list.gradient_of(var->name());
    found.push_back(gradient.empty() ? nullptr : &into.var(gradient));
  }
  return found;
}

}  // namespace trireme
