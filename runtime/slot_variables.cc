// Finding the variables of a plan's slots.
#include "runtime/slot_variables.h"

namespace trireme {
namespace {

Variable& state_of(const std::string& name, Scope& scope) {
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

bool SlotVariables::find_states(Scope& scope, const LocalStates* local) {
  if (scope_id_ == scope.id() && epoch_ == scope.epoch()) return false;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind != SlotKind::state) continue;
    const auto number = static_cast<size_t>(plan_.slots[s].index);
    Variable* own = local && !local->empty() ? (*local)[number].get() : nullptr;
    variables_[s] = own ? own : &state_of(plan_.graph.states[number].name, scope);
  }
  scope_id_ = scope.id();
  epoch_ = scope.epoch();
  return true;
}

void SlotVariables::move_states(const Scope& scope, const Place& device) {
  if (memory_epoch_ == scope.memory_epoch()) return;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind != SlotKind::state) continue;
    const Place place = plan_.slots[s].on_device ? device : cpu_place();
    Variable& variable = *variables_[s];
    const auto move = [&](Tensor& tensor) {
      if (tensor.initialized() && tensor.place() != place) tensor = tensor.to(place);
    };
    if (variable.kind() == Kind::dense) move(variable.tensor());
    if (variable.kind() == Kind::rows) {
      SelectedRows& rows = variable.rows();
      move(rows.value);
      if (rows.rows.place() != place) rows.rows = rows.rows.to(place);
    }
  }
  memory_epoch_ = scope.memory_epoch();
}

bool SlotVariables::states_are_alone() const {
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind != SlotKind::state) continue;
    const Variable* state = variables_[s];
    if (state->kind() == Kind::dense && state->tensor().buffer().use_count() > 1) return false;
  }
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
