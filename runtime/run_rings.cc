// Finding rings before a run.
#include "runtime/run_rings.h"

#include <algorithm>

namespace trireme {

size_t RunRings::add(const std::string& name) {
  const auto found =
      std::ranges::find_if(rings_, [&](const Known& known) { return known.name == name; });
  if (found != rings_.end()) return static_cast<size_t>(found - rings_.begin());
  rings_.push_back({.name = name});
  return rings_.size() - 1;
}

// Who meets anew replaces what a variable holds, which no count of the scope tells.
void RunRings::find(const Scope& scope) {
  if (rings_.empty()) return;
  const bool moved = scope_id_ != scope.id() || epoch_ != scope.epoch();
  scope_ = &scope;
  scope_id_ = scope.id();
  epoch_ = scope.epoch();
  for (Known& known : rings_) {
    if (moved) known.where = scope.find(known.name);
    known.ring = known.where ? known.where->host<Ring>() : nullptr;
  }
}

const std::shared_ptr<Group>& RunRings::group(size_t number) const {
  const Known& known = rings_[number];
  return known.ring ? known.ring->group : find_ring(*scope_, known.name)->group;
}

}  // namespace trireme
