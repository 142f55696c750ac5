// Which ops of a trained program update its parameters, and which of them move to servers.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace trireme {

// One parameter, one gradient, and the ops that update the one from the other, in program order:
// weight decay, the optimizer's op, what follows it.
struct Update {
  std::string param;
  std::string grad;  // as backward and clips leave it: what trainers send
  std::vector<const Op*> ops;
  const Op* optimizer = nullptr;
};

struct UpdateOps {
  std::vector<const Op*> schedule;  // the learning rate's
  std::vector<const Op*> clips;     // optimize-role ops that work on gradients alone: clips
  std::vector<Update> updates;
  // Optimize-role ops that read what updates leave and update nothing themselves: averages.
  std::vector<const Op*> followers;
  const Op* step_counter = nullptr;  // the schedule's increment of @LR_DECAY_COUNTER@
};

// Parameters and gradients in turns: what op_role_var says.
std::vector<std::string> role_vars(const Op& op);

// Errors: no optimizer ops (call minimize first), some inside of blocks, ops that no parameter
// owns.
UpdateOps find_updates(const Program& program);
// What a trainer writes into a parameter is gone when it receives the servers' value: an Error.
void refuse_other_writers(const Program& program, const UpdateOps& ops);

inline constexpr std::string_view kLrCounter = "@LR_DECAY_COUNTER@";

}  // namespace trireme
