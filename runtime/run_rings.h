// The rings that a plan's exchanges name, as the scope of a run holds them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/ring.h"
#include "core/scope.h"

namespace trireme {

class RunRings {
 public:
  // Its number from now on.
  size_t add(const std::string& name);
  // Before a run. Names are looked up where the scope is another one or its variables have changed.
  void find(const Scope& scope);
  // An Error where the ranks have not met.
  const std::shared_ptr<Group>& group(size_t number) const;

 private:
  struct Known {
    std::string name;
    const Variable* where = nullptr;
    std::shared_ptr<Ring> ring = nullptr;
  };
  std::vector<Known> rings_;
  const Scope* scope_ = nullptr;
  uint64_t scope_id_ = 0, epoch_ = 0;
};

}  // namespace trireme
