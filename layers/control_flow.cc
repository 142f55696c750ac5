// Sub-blocks and the conditional_block and while ops that run them.
#include "layers/control_flow.h"

#include <algorithm>
#include <tuple>

#include "core/text.h"
#include "core/warning.h"
#include "ir/unique_name.h"
#include "layers/array.h"
#include "layers/layer_helper.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme::layers {
namespace {

void remove(std::vector<std::string>& names, const std::vector<std::string>& unwanted) {
  std::erase_if(names, [&](const std::string& name) {
    return std::find(unwanted.begin(), unwanted.end(), name) != unwanted.end();
  });
}

}  // namespace

// ---- ConditionalBlock, Switch

ConditionalBlock::ConditionalBlock(Vars inputs, bool is_scalar_condition, const std::string& name,
                                   SourceLine line)
    : inputs_(std::move(inputs)),
      is_scalar_condition_(is_scalar_condition),
      line_(std::move(line)) {
  const LineScope scope(line_);
  const LayerHelper helper("conditional_block", name);
  if (inputs_.empty()) throw helper.error("a conditional block needs a condition");
  if (!is_scalar_condition) return;
  for (const Var* condition : inputs_)
    helper.check_dtype(*condition, "condition", {DType::boolean});
}

void ConditionalBlock::complete() {
  promise(open(), "complete follows begin");
  const LineScope scope(line_);
  const Block& block = inside();
  Block& around = parent();
  abandon();
  Crossing crossing = crossing_of(block, around);
  const std::vector<std::string> conditions = inputs_.names();
  remove(crossing.read, conditions);
  Var& step_scope = around.create_var({.type = VarType::step_scopes, .has_shape = false});
  around.append_op({.type = "conditional_block",
                    .inputs = {{"Cond", conditions}, {"Input", crossing.read}},
                    .outputs = {{"Out", crossing.written}, {"Scope", {step_scope.name()}}},
                    .attrs = {{"sub_block", BlockRef{block.index()}},
                              {"is_scalar_condition", is_scalar_condition_}}},
                   user_line());
}

ConditionalBlock Switch::when(Var& condition, SourceLine line) {
  const LineScope scope(line);
  if (!none_before_) {
    ConditionalBlock first(condition, /*is_scalar_condition=*/true, {}, line);
    none_before_ = &logical_not(condition);
    return first;
  }
  Var& before = *none_before_;
  none_before_ = &logical_and(before, logical_not(condition));
  return ConditionalBlock(logical_and(before, condition), /*is_scalar_condition=*/true, {}, line);
}

ConditionalBlock Switch::otherwise(SourceLine line) {
  if (!none_before_) {
    throw Error("the default of a Switch comes before any case")
        .in("switch")
        .at(line)
        .fix("add a case first");
  }
  return ConditionalBlock(*none_before_, /*is_scalar_condition=*/true, {}, line);
}

void Switch::when(Var& condition, const std::function<void()>& build, SourceLine line) {
  when(condition, line).run(build);
}

void Switch::otherwise(const std::function<void()>& build, SourceLine line) {
  otherwise(line).run(build);
}

// ---- While, while_loop

While::While(Var& condition, bool is_test, const std::string& name, SourceLine line)
    : condition_(&condition), is_test_(is_test), line_(std::move(line)) {
  const LineScope scope(line_);
  const LayerHelper helper("while", name);
  helper.check_dtype(condition, "condition", {DType::boolean});
  if (condition.has_shape() && !condition.shape().numel().may_equal(1)) {
    throw helper
        .error(cat("condition ", condition.name(), " has shape ", condition.shape(),
                   "; it must be one bool"))
        .fix("reduce it to one element, for instance with reduce_all");
  }
}

void While::complete() {
  promise(open(), "complete follows begin");
  const LineScope scope(line_);
  const Block& block = inside();
  Block& around = parent();
  abandon();
  Crossing crossing = crossing_of(block, around, {condition_->name()});
  // What the loop writes it may also leave as it was, so all of it is read as well.
  for (const std::string& name : crossing.written) {
    if (std::find(crossing.read.begin(), crossing.read.end(), name) == crossing.read.end()) {
      crossing.read.push_back(name);
    }
  }
  remove(crossing.read, {condition_->name()});
  Var& step_scope = around.create_var({.type = VarType::step_scopes, .has_shape = false});
  around.append_op({.type = "while",
                    .inputs = {{"X", crossing.read}, {"Condition", {condition_->name()}}},
                    .outputs = {{"Out", crossing.written}, {"StepScopes", {step_scope.name()}}},
                    .attrs = {{"sub_block", BlockRef{block.index()}}, {"is_test", is_test_}}},
                   user_line());
}

namespace {

// The loop variables become what the body returned.
void carry_over(const LayerHelper& helper, std::vector<Var*> next, const std::vector<Var*>& vars,
                const SourceLine& line) {
  const LineScope scope(line);
  if (next.size() != vars.size()) {
    throw helper
        .error(cat("body returns ", next.size(), " variables but there are ", vars.size(),
                   " loop_vars"))
        .fix("return one variable for each loop variable, in their order");
  }
  // A loop variable that becomes another one must be read before that one is written.
  for (size_t i = 0; i < next.size(); ++i) {
    const bool other =
        next[i] != vars[i] && std::find(vars.begin(), vars.end(), next[i]) != vars.end();
    if (other) next[i] = &assign(*next[i]);
  }
  for (size_t i = 0; i < next.size(); ++i) {
    if (next[i] != vars[i]) assign(*next[i], vars[i]);
  }
}

}  // namespace

// Ops of the caller's functions keep the caller's lines: no LineScope is open while they run.
std::vector<Var*> while_loop(const BuildCondition& condition, const BuildNext& body,
                             const Vars& loop_vars, bool is_test, const std::string& name,
                             SourceLine line) {
  const LayerHelper helper("while_loop", name);
  if (loop_vars.empty()) {
    const LineScope scope(line);
    throw helper.error("loop_vars is empty").fix("give at least one variable");
  }
  const std::vector<Var*>& vars = loop_vars.list();
  Var& holds = condition(vars);
  While loop(holds, is_test, name, line);
  loop.run([&] {
    carry_over(helper, body(vars), vars, line);
    Var& again = condition(vars);
    const LineScope scope(line);
    if (&again != &holds) assign(again, &holds);
  });
  return vars;
}

// ---- cond, case_, switch_case

namespace {

// Runs in the sub-block: a variable of the parent that holds the result.
Var& copy_to_parent(const LayerHelper& helper, Var& var) {
  Block& parent = *helper.main_program().current_block().parent();
  if (var.type() == VarType::lod_tensor_array && parent.find_var_recursive(var.name())) return var;
  Var& copy = parent.create_var({.type = var.type(),
                                 .dtype = var.dtype(),
                                 .shape = var.shape(),
                                 .lod_level = var.lod_level()});
  return assign(var, &copy);
}

std::vector<Var*> run_branch(const LayerHelper& helper, Var& condition, const Build& build,
                             const SourceLine& line) {
  std::vector<Var*> results;
  if (!build) return results;
  ConditionalBlock block(condition, /*is_scalar_condition=*/true, {}, line);
  block.run([&] {
    const std::vector<Var*> made = build();
    const LineScope scope(line);
    for (Var* var : made) results.push_back(&copy_to_parent(helper, *var));
  });
  return results;
}

// A bool gives way to an integer, an integer to a floating type, and of one kind the shorter one.
DType wider(DType a, DType b) {
  const auto order = [](DType dtype) {
    return std::tuple(is_floating(dtype) ? 2 : is_integer(dtype) ? 1 : 0, size_of(dtype));
  };
  if (a != b && order(a) == order(b)) return is_floating(a) ? DType::float32 : DType::int16;
  return order(a) < order(b) ? b : a;
}

// What is read behind the branches is compiled for one type. The branch that ran turns its result.
Var& turned(const LayerHelper& helper, Var& condition, Var& result, DType dtype,
            const SourceLine& line) {
  if (result.dtype() == dtype) return result;
  return *run_branch(
      helper, condition, [&] { return std::vector{&cast(result, dtype)}; }, line)[0];
}

}  // namespace

std::vector<Var*> cond(Var& pred, const Build& true_fn, const Build& false_fn,
                       const std::string& name, SourceLine line) {
  LayerHelper helper("cond", name);
  {
    const LineScope scope(line);
    helper.check_dtype(pred, "pred", {DType::boolean});
  }
  const std::vector<Var*> of_true = run_branch(helper, pred, true_fn, line);
  std::vector<Var*> of_false;
  Var* otherwise = false_fn ? &logical_not(pred, nullptr, line) : nullptr;
  if (false_fn) of_false = run_branch(helper, *otherwise, false_fn, line);
  const LineScope scope(line);
  if (of_true.size() != of_false.size()) {
    throw helper
        .error(cat("true_fn returns ", of_true.size(), " variables and false_fn ", of_false.size()))
        .fix("return the same number of variables from both");
  }
  std::vector<Var*> results;
  if (of_true.empty()) return results;
  Var& mask = cast(pred, DType::int32);
  for (size_t i = 0; i < of_true.size(); ++i) {
    Var *of_yes = of_true[i], *of_no = of_false[i];
    const DType dtype = wider(of_yes->dtype(), of_no->dtype());
    if (of_yes->dtype() != of_no->dtype()) {
      const std::string types =
          cat("result ", i, " is ", name_of(of_yes->dtype()), " from true_fn and ",
              name_of(of_no->dtype()), " from false_fn");
      if (of_yes->type() != VarType::lod_tensor || of_no->type() != VarType::lod_tensor) {
        throw helper.error(ErrorKind::type_mismatch, types).fix("give both the same type");
      }
      warn(cat("cond: ", types, ": both are turned into ", name_of(dtype)));
      of_yes = &turned(helper, pred, *of_yes, dtype, line);
      of_no = &turned(helper, *otherwise, *of_no, dtype, line);
    }
    LayerHelper select("select_input");
    Var& out = select.create_variable(
        {.type = of_no->type(), .dtype = of_no->dtype(), .shape = of_no->shape()});
    select.append_op("select_input", {{"X", Vars({*of_no, *of_yes})}, {"Mask", mask}},
                     {{"Out", out}});
    results.push_back(&out);
  }
  return results;
}

std::vector<Var*> case_(std::vector<std::pair<Var*, Build>> pairs, Build otherwise,
                        const std::string& name, SourceLine line) {
  if (pairs.empty()) {
    const LineScope scope(line);
    throw LayerHelper("case", name).error("pred_fn_pairs is empty").fix("give at least one pair");
  }
  if (!otherwise) {
    otherwise = pairs.back().second;
    pairs.pop_back();
  }
  Build chain = std::move(otherwise);
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    chain = [pred = pair->first, chosen = pair->second, rest = std::move(chain), line] {
      return cond(*pred, chosen, rest, {}, line);
    };
  }
  return chain();
}

std::vector<Var*> switch_case(Var& branch_index, std::map<int, Build> branches, Build otherwise,
                              const std::string& name, SourceLine line) {
  std::vector<std::pair<Var*, Build>> pairs;
  {
    const LineScope scope(line);
    const LayerHelper helper("switch_case", name);
    helper.check_dtype(branch_index, "branch_index", {DType::uint8, DType::int32, DType::int64});
    if (branches.empty()) throw helper.error("branch_fns is empty").fix("give at least one branch");
    if (!otherwise) otherwise = branches.rbegin()->second;
    Var& index =
        branch_index.dtype() == DType::int64 ? branch_index : cast(branch_index, DType::int64);
    for (auto& [number, build] : branches) {
      Var& same = equal(index, fill_constant({1}, DType::int64, number));
      pairs.emplace_back(&same, std::move(build));
    }
  }
  return case_(std::move(pairs), std::move(otherwise), name, line);
}

// ---- IfElse

IfElse::IfElse(Var& cond, const std::string& name, SourceLine line)
    : cond_(cond),
      name_(LayerHelper("ifelse", name).name()),
      sides_{ConditionalBlock(
                 [&]() -> Var& {
                   const LineScope scope(line);
                   LayerHelper("ifelse", name_).check_dtype(cond, "cond", {DType::boolean});
                   return logical_not(cond);
                 }(),
                 false, {}, line),
             ConditionalBlock(cond, false, {}, line)} {}

SubBlock& IfElse::side(bool of_true) { return sides_[of_true]; }

void IfElse::enter(bool of_true) {
  if (inside_) {
    throw LayerHelper("ifelse", name_).error("true_block and false_block are one in the other");
  }
  inside_ = of_true;
}
void IfElse::leave() { inside_.reset(); }

void IfElse::run_side(bool of_true, const std::function<void()>& build) {
  side(of_true).run([&] {
    enter(of_true);
    try {
      build();
    } catch (...) {
      leave();
      throw;
    }
    leave();
  });
}
void IfElse::true_block(const std::function<void()>& build) { run_side(true, build); }
void IfElse::false_block(const std::function<void()>& build) { run_side(false, build); }

Var& IfElse::input(Var& x, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("ifelse", name_);
  if (!inside_) throw helper.error("input is called outside of true_block and false_block");
  Block& parent = *helper.main_program().current_block().parent();
  auto [found, fresh] = inputs_.try_emplace(&x);
  if (fresh) {
    const auto part = [&]() -> Var& {
      return parent.create_var({.name = unique_names().generate("ifelse_input" + name_),
                                .dtype = x.dtype(),
                                .has_shape = false});
    };
    Var& of_true = part();
    Var& of_false = part();
    parent.append_op({.type = "split_lod_tensor",
                      .inputs = {{"X", {x.name()}}, {"Mask", {cond_.name()}}},
                      .outputs = {{"OutTrue", {of_true.name()}}, {"OutFalse", {of_false.name()}}},
                      .attrs = {{"level", 0}}},
                     user_line());
    found->second = {&of_false, &of_true};
  }
  return *inside_ ? *found->second.second : *found->second.first;
}

void IfElse::output(const Vars& outs, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("ifelse", name_);
  if (!inside_) throw helper.error("output is called outside of true_block and false_block");
  Block& parent = *helper.main_program().current_block().parent();
  for (Var* out : outs) {
    Var& outside = parent.create_var({.name = unique_names().generate(name_ + "_output"),
                                      .dtype = out->dtype(),
                                      .has_shape = false});
    outputs_[*inside_].push_back(&assign(*out, &outside));
  }
}

std::vector<Var*> IfElse::operator()(SourceLine line) {
  const LineScope scope(line);
  const LayerHelper helper("ifelse", name_);
  const std::vector<Var*>&of_false = outputs_[0], &of_true = outputs_[1];
  if (of_true.empty() && of_false.empty()) {
    throw helper.error("neither block has an output")
        .fix("call output in true_block or false_block");
  }
  if (of_true.empty() || of_false.empty()) return of_true.empty() ? of_false : of_true;
  if (of_true.size() != of_false.size()) {
    throw helper
        .error(cat("true_block has ", of_true.size(), " outputs and false_block ", of_false.size()))
        .fix("give both blocks the same number of outputs");
  }
  std::vector<Var*> merged;
  for (size_t i = 0; i < of_true.size(); ++i) {
    merged.push_back(&merge_lod_tensor(*of_true[i], *of_false[i], cond_, cond_));
  }
  return merged;
}

}  // namespace trireme::layers
