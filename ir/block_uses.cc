// One walk over a block's ops that notes every name with its readers and writers.
#include "ir/block_uses.h"

namespace trireme {
namespace {

void note_place(std::vector<size_t>& places, size_t place) {
  if (places.empty() || places.back() != place) places.push_back(place);
}

}  // namespace

BlockUses::BlockUses(const Block& block) {
  ops_.reserve(block.size());
  for (Op* op : block.ops()) {
    const size_t place = ops_.size();
    ops_.push_back(op);
    places_.emplace(op, place);
    for (const auto& [slot, names] : op->inputs()) {
      for (const std::string& name : names) note_place(uses_[name].reads, place);
    }
    for (const auto& [slot, names] : op->outputs()) {
      for (const std::string& name : names) note_place(uses_[name].writes, place);
    }
  }
}

const BlockUses::Uses& BlockUses::of(std::string_view name) const {
  static const Uses nobody;
  const auto found = uses_.find(name);
  return found == uses_.end() ? nobody : found->second;
}

}  // namespace trireme
