// Programs: identity, blocks and the counter that every edit raises.
#include "ir/program.h"

#include <algorithm>
#include <atomic>

#include "core/text.h"

namespace trireme {
namespace {

std::atomic<int> default_seed{0};

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Program::Program() : id_(next_id()), seed_(default_seed) {
  blocks_.push_back(std::unique_ptr<Block>(new Block(*this, 0, -1)));
}

Program::~Program() = default;

std::shared_ptr<Program> Program::create() { return std::shared_ptr<Program>(new Program()); }

Block& Program::block(int index) const {
  if (index < 0 || static_cast<size_t>(index) >= blocks_.size()) {
    throw Error(ErrorKind::out_of_range,
                cat("block ", index, " does not exist: the program has ", blocks_.size(),
                    blocks_.size() == 1 ? " block" : " blocks"));
  }
  return *blocks_[static_cast<size_t>(index)];
}

void Program::set_current(int index) { current_ = block(index).index(); }

Block& Program::create_block(int parent) {
  const int above = parent == -2 ? current_ : block(parent).index();
  const int index = static_cast<int>(blocks_.size());
  blocks_.push_back(std::unique_ptr<Block>(new Block(*this, index, above)));
  current_ = index;
  touch();
  return *blocks_.back();
}

void Program::rollback() {
  if (current_block().parent_index() < 0) {
    throw Error(ErrorKind::precondition, "the current block is the global one; it has no parent");
  }
  current_ = current_block().parent_index();
}

void Program::keep_blocks(const std::vector<int>& kept) {
  promise(!kept.empty() && kept.front() == 0, "the global block is kept and stays first");
  std::vector<int> renumbered(blocks_.size(), -1);
  for (size_t i = 0; i < kept.size(); ++i) {
    renumbered.at(static_cast<size_t>(block(kept[i]).index())) = static_cast<int>(i);
  }
  std::vector<std::unique_ptr<Block>> before = std::move(blocks_);
  blocks_.clear();
  // A block whose parent goes moves up to the nearest ancestor that stays.
  const auto ancestor = [&](int index) {
    while (index >= 0 && renumbered[static_cast<size_t>(index)] < 0) {
      index = before[static_cast<size_t>(index)]->parent_index();
    }
    return index < 0 ? -1 : renumbered[static_cast<size_t>(index)];
  };
  const auto number = [&](int index) {
    const bool exists = index >= 0 && static_cast<size_t>(index) < renumbered.size();
    return exists ? renumbered[static_cast<size_t>(index)] : -1;
  };
  for (const int old : kept) {
    Block& block = *before[static_cast<size_t>(old)];
    block.parent_ = ancestor(block.parent_);
    block.forward_ = number(block.forward_);
    for (Op* op : block.ops()) {
      for (const auto& [name, value] : Attrs(op->attrs())) {
        if (const auto* ref = std::get_if<BlockRef>(&value)) {
          op->set_attr(name, BlockRef{number(ref->index)});
        } else if (const auto* refs = std::get_if<BlockRefs>(&value)) {
          BlockRefs changed;
          for (const int index : refs->indices) {
            if (number(index) >= 0) changed.indices.push_back(number(index));
          }
          op->set_attr(name, std::move(changed));
        }
      }
    }
  }
  current_ = std::max(0, ancestor(current_));
  for (const int old : kept) blocks_.push_back(std::move(before[static_cast<size_t>(old)]));
  for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i]->index_ = static_cast<int>(i);
  for (std::unique_ptr<Block>& gone : before) {
    if (!gone) continue;
    for (const Var* var : gone->vars()) forget_holder(var->name(), *gone);
    removed_blocks_.push_back(std::move(gone));
  }
  touch();
}

void Program::note_holder(std::string_view name, const Block& block) {
  holders_[std::string(name)].push_back(&block);
}

void Program::forget_holder(std::string_view name, const Block& block) {
  const auto found = holders_.find(name);
  std::erase(found->second, &block);
  if (found->second.empty()) holders_.erase(found);
}

std::vector<Var*> Program::parameters() const {
  std::vector<Var*> found;
  for (const std::unique_ptr<Block>& block : blocks_) {
    for (Var* var : block->vars()) {
      if (var->is_parameter()) found.push_back(var);
    }
  }
  return found;
}

void Program::set_seed(int seed) {
  seed_ = seed;
  touch();
}

void Program::set_default_seed(int seed) { default_seed = seed; }

}  // namespace trireme
