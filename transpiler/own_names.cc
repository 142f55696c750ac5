// Finds the names that variables share, and gives each variable its own back.
#include "transpiler/own_names.h"

#include <map>

namespace trireme {

std::set<std::string> shared_names(const Program& program) {
  std::set<std::string> shared;
  for (const Op* op : program.global_block().ops()) {
    for (const auto& [now, own] : op->former_names) shared.insert(now);
  }
  return shared;
}

void give_back_names(Program& program) {
  std::map<std::string, std::string> held;  // name -> the variable that has it now
  const auto own_of = [&](const std::string& name) {
    const auto found = held.find(name);
    return found == held.end() ? name : found->second;
  };
  for (Op* op : program.global_block().ops()) {
    const bool moves = op->has_role(op_role::kOptimize) || op->has_role(op_role::kLrSched);
    if (moves) {
      for (auto [slot, names] : Slots(op->inputs())) {
        for (std::string& name : names) name = own_of(name);
        op->set_input(slot, names);
      }
    }
    for (const std::string& name : op->output_names()) held[name] = op->own_name(name);
    if (moves) {
      for (auto [slot, names] : Slots(op->outputs())) {
        for (std::string& name : names) name = own_of(name);
        op->set_output(slot, names);
      }
      op->former_names.clear();
    }
  }
}

}  // namespace trireme
