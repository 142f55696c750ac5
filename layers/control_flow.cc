// ConditionalBlock and Switch: sub-blocks and the conditional_block ops that run them.
#include "layers/control_flow.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "layers/layer_helper.h"
#include "layers/ops.h"

namespace trireme::layers {
namespace {

// What a sub-block takes from outside and what it leaves there, in order of first mention.
struct Crossing {
  std::vector<std::string> read, written;
};

void add_once(std::vector<std::string>& names, std::set<std::string>& seen,
              const std::string& name) {
  if (seen.insert(name).second) names.push_back(name);
}

void walk(const Block& block, const Block& outside, Crossing& crossing, std::set<std::string>& made,
          std::set<std::string>& seen_read, std::set<std::string>& seen_written) {
  for (const Op* op : block.ops()) {
    for (const std::string& name : op->input_names()) {
      if (!made.contains(name) && outside.find_var_recursive(name)) {
        add_once(crossing.read, seen_read, name);
      }
    }
    if (const Block* inner = op->sub_block()) {
      walk(*inner, outside, crossing, made, seen_read, seen_written);
    }
    for (const std::string& name : op->output_names()) {
      made.insert(name);
      if (outside.find_var_recursive(name)) add_once(crossing.written, seen_written, name);
    }
  }
}

Crossing crossing_of(const Block& block, const Block& outside) {
  Crossing crossing;
  std::set<std::string> made, seen_read, seen_written;
  walk(block, outside, crossing, made, seen_read, seen_written);
  return crossing;
}

}  // namespace

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

void ConditionalBlock::begin() {
  program_ = default_main_program().shared_from_this();
  block_ = program_->create_block().index();
}

void ConditionalBlock::abandon() {
  if (block_ < 0) return;
  program_->set_current(program_->block(block_).parent_index());
  block_ = -1;
}

void ConditionalBlock::complete() {
  promise(block_ >= 0, "complete follows begin");
  const LineScope scope(line_);
  Block& inside = program_->block(block_);
  Block& parent = *inside.parent();
  abandon();
  Crossing crossing = crossing_of(inside, parent);
  const std::vector<std::string> conditions = inputs_.names();
  std::erase_if(crossing.read, [&](const std::string& name) {
    return std::find(conditions.begin(), conditions.end(), name) != conditions.end();
  });
  Var& step_scope = parent.create_var({.type = VarType::step_scopes, .has_shape = false});
  parent.append_op({.type = "conditional_block",
                    .inputs = {{"Cond", conditions}, {"Input", crossing.read}},
                    .outputs = {{"Out", crossing.written}, {"Scope", {step_scope.name()}}},
                    .attrs = {{"sub_block", BlockRef{inside.index()}},
                              {"is_scalar_condition", is_scalar_condition_}}},
                   user_line());
}

void ConditionalBlock::run(const std::function<void()>& build) {
  begin();
  try {
    build();
  } catch (...) {
    abandon();
    throw;
  }
  complete();
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

}  // namespace trireme::layers
