// The variables that a plan's slots stand for: the frame's own, the scope's, the outer frame's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compile/plan.h"
#include "core/scope.h"

namespace trireme {

// States of one replica, by the number of the graph's state; null: it uses the scope's variable.
using LocalStates = std::vector<std::unique_ptr<Variable>>;

class SlotVariables {
 public:
  explicit SlotVariables(const Plan& plan);
  SlotVariables(const SlotVariables&) = delete;
  SlotVariables& operator=(const SlotVariables&) = delete;

  Variable& operator[](int slot) const { return *variables_[static_cast<size_t>(slot)]; }
  Variable& of(int value) const { return (*this)[plan_.slot_of[value]]; }
  // Null where a state or an outer slot was not found yet.
  const Variable* find(size_t slot) const { return variables_[slot]; }

  // Finds the states in `local`, then in the scope and its parents; what nobody has is made in the
  // root. True when they may be others than those found before.
  bool find_states(Scope& scope, const LocalStates* local);
  // States lie where the plan has them: those that others left elsewhere are moved.
  void move_states(const Scope& scope, const Place& device);
  // True when some outer slot stands for another variable than before.
  bool find_outer(const SlotVariables& outer);
  // Nobody else holds the memory of a state, as an array of Python does that looks at it.
  bool states_are_alone() const;
  uint64_t scope_id() const { return scope_id_; }

 private:
  const Plan& plan_;
  std::vector<Variable> own_;         // by slot; unused for slots that live elsewhere
  std::vector<Variable*> variables_;  // by slot
  std::vector<size_t> outer_;         // slots of the frame around
  uint64_t scope_id_ = 0;
  uint64_t epoch_ = 0;
  uint64_t memory_epoch_ = 0;  // of the scope when all states lay right
};

}  // namespace trireme
