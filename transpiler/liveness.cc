// Walks a block backwards, and its sub-blocks with it.
#include "transpiler/liveness.h"

#include <algorithm>
#include <map>

#include "ir/copy.h"

namespace trireme {
namespace {

std::set<int> blocks_of(const Op& op) {
  std::set<int> blocks;
  for (const auto& [name, value] : op.attrs()) {
    for (const int index : blocks_in(value)) blocks.insert(index);
  }
  return blocks;
}

// `index` and the blocks inside it.
void add_with_inner(const Program& program, int index, std::set<int>& blocks) {
  if (!blocks.insert(index).second) return;
  for (const Op* op : program.block(index).ops()) {
    for (const int inner : blocks_of(*op)) add_with_inner(program, inner, blocks);
  }
}

void add_names(std::set<std::string>& to, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name != kEmptyVar) to.insert(name);
  }
}

std::set<std::string> names_in_attrs(const Op& op) {
  std::set<std::string> names;
  for (const auto& [key, value] : op.attrs()) {
    if (const auto* ref = std::get_if<VarRef>(&value)) names.insert(ref->name);
    if (const auto* refs = std::get_if<VarRefs>(&value)) add_names(names, refs->names);
  }
  return names;
}

// Variables of `block` that ops of `inner` name.
void add_outer_names(const Block& inner, const Block& block, std::set<std::string>& to) {
  for (const Op* op : inner.ops()) {
    std::set<std::string> names = names_in_attrs(*op);
    add_names(names, op->input_names());
    add_names(names, op->output_names());
    for (const std::string& name : names) {
      const Var* var = inner.find_var_recursive(name);
      if (var && &var->block() == &block) to.insert(name);
    }
  }
}

// What the op that owns the block knows by name: its operands, names in text attributes (a
// recurrent op's states), and the gradients of both, which it takes from the block under their own
// names whatever its outputs are called.
void add_names_of_owner(const Block& block, std::set<std::string>& to) {
  const auto add = [&](const std::vector<std::string>& names) {
    add_names(to, names);
    for (const std::string& name : names) to.insert(grad_name(name));
  };
  const Program& program = block.program();
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (const Op* op : program.block(static_cast<int>(i)).ops()) {
      if (!blocks_of(*op).contains(block.index())) continue;
      add(op->input_names());
      add(op->output_names());
      for (const auto& [key, value] : op->attrs()) {
        if (const auto* text = std::get_if<std::string>(&value)) add({*text});
        if (const auto* list = std::get_if<std::vector<std::string>>(&value)) add(*list);
      }
    }
  }
}

bool is_loop_body(const Block& block) {
  const Program& program = block.program();
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (const Op* op : program.block(static_cast<int>(i)).ops()) {
      if (!blocks_of(*op).contains(block.index())) continue;
      if (!op->type().starts_with("conditional_block")) return true;
    }
  }
  return false;
}

struct Touches {
  std::vector<std::set<std::string>> uses, defs;  // by op
};

// One walk from the last op to the first; `live` is what is needed after the last one.
std::set<std::string> walk_back(const Touches& touches, std::set<std::string> live,
                                std::vector<std::vector<std::string>>* dying) {
  for (size_t i = touches.uses.size(); i-- > 0;) {
    for (const std::string& name : touches.defs[i]) {
      if (!touches.uses[i].contains(name)) live.erase(name);
    }
    for (const std::string& name : touches.uses[i]) {
      const bool dies = live.insert(name).second && !touches.defs[i].contains(name);
      if (dies && dying) (*dying)[i].push_back(name);
    }
  }
  return live;
}

}  // namespace

BlockLiveness find_liveness(const Block& block) {
  const Program& program = block.program();
  const std::vector<Op*> ops = block.ops();
  BlockLiveness result;
  Touches touches;
  std::set<int> inside = {block.index()};
  for (const Op* op : ops) {
    const std::set<int> inner = blocks_of(*op);
    std::set<std::string> uses = names_in_attrs(*op), defs;
    add_names(uses, op->input_names());
    // A sub-block may run never or many times: what it writes keeps its old value or is read again.
    add_names(inner.empty() ? defs : uses, op->output_names());
    for (const int index : inner) {
      std::set<int> all;
      add_with_inner(program, index, all);
      std::set<std::string> named;
      for (const int i : all) add_outer_names(program.block(i), block, named);
      uses.insert(named.begin(), named.end());
      result.nested.insert(named.begin(), named.end());
      inside.insert(all.begin(), all.end());
    }
    if (!inner.empty()) {
      add_names(result.nested, op->input_names());
      add_names(result.nested, op->output_names());
    }
    result.is_container.push_back(!inner.empty());
    touches.uses.push_back(std::move(uses));
    touches.defs.push_back(std::move(defs));
  }
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    const Block& other = program.block(static_cast<int>(i));
    if (!inside.contains(other.index())) add_outer_names(other, block, result.kept);
  }
  add_names_of_owner(block, result.kept);

  std::set<std::string> after_last;
  if (is_loop_body(block)) after_last = walk_back(touches, {}, nullptr);
  result.dying.resize(ops.size());
  const std::set<std::string> before_first = walk_back(touches, after_last, &result.dying);
  for (std::vector<std::string>& names : result.dying) std::ranges::sort(names);

  std::map<std::string, int> deaths;
  std::map<std::string, size_t> last_touch, last_death;
  for (size_t i = 0; i < ops.size(); ++i) {
    for (const auto* names : {&touches.uses[i], &touches.defs[i]}) {
      for (const std::string& name : *names) last_touch[name] = i;
    }
    for (const std::string& name : result.dying[i]) {
      ++deaths[name];
      last_death[name] = i;
    }
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    for (const std::string& name : touches.defs[i]) {
      if (before_first.contains(name)) continue;  // it has a value before this block writes it
      const bool dies_last = deaths[name] == 1 && last_death[name] == last_touch[name];
      if (deaths[name] == 0 || dies_last) result.one_life.insert(name);
    }
  }
  return result;
}

}  // namespace trireme
