// Finding the variables of a plan's slots.
#include "runtime/slot_variables.h"

namespace trireme {
namespace {

Variable& state_of(const std::string& name, Scope& scope, LocalStates* local) {
  if (local) {
    if (const auto found = local->find(name); found != local->end()) return found->second;
  }
  if (Variable* found = scope.find(name)) return *found;
  Scope* root = &scope;
  while (root->parent()) root = root->parent();
  return root->var(name);
}

}  // namespace

SlotVariables::SlotVariables(const Plan& plan)
    : plan_(plan), own_(plan.slots.size()), variables_(plan.slots.size(), nullptr) {
  for (size_t s = 0; s < plan.slots.size(); ++s) {
    const SlotKind kind = plan.slots[s].kind;
    if (kind == SlotKind::own || kind == SlotKind::feed) variables_[s] = &own_[s];
    if (kind == SlotKind::outer) outer_.push_back(s);
  }
}

bool SlotVariables::find_states(Scope& scope, LocalStates* local) {
  if (scope_id_ == scope.id() && epoch_ == scope.epoch()) return false;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind != SlotKind::state) continue;
    variables_[s] = &state_of(plan_.graph.states[plan_.slots[s].index].name, scope, local);
  }
  scope_id_ = scope.id();
  epoch_ = scope.epoch();
  return true;
}

bool SlotVariables::find_outer(const SlotVariables& outer) {
  bool moved = false;
  for (size_t s : outer_) {
    Variable* variable = outer.variables_[static_cast<size_t>(plan_.slots[s].index)];
    moved |= variables_[s] != variable;
    variables_[s] = variable;
  }
  return moved;
}

}  // namespace trireme
