// Clips that must see the average of all trainers' gradients, not one trainer's: they move to the
// servers. A norm over several gradients takes two rounds of a step. In the first, every server
// averages and adds up what its blocks have to say; the first trainer adds up the servers' parts.
// In the second, the total goes back to the servers, which clip and update.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transpiler/updates.h"

namespace trireme {

// Gradients that are clipped together: each gives a number, and the sum of the numbers decides.
struct ClipJoin {
  const Op* sum = nullptr;
  std::string total;              // what it writes
  std::vector<const Op*> decide;  // ops on the total alone
};

// One gradient's way through the clips.
struct ClippedGrad {
  std::string raw;                // as backward leaves it: what trainers send
  std::vector<const Op*> before;  // ops on it alone, up to its number where it is in a join
  std::vector<const Op*> after;   // ops on it that read what the join decided
  int join = -1;
  std::string number;      // what the join's sum reads
  bool may_be_cut = true;  // slices, clipped by themselves, are slices of the clipped whole
};

struct ServerClips {
  std::vector<ClipJoin> joins;
  std::map<std::string, ClippedGrad> grads;  // by the name after the clips
  std::vector<const Op*> ops;                // all of the above

  const ClippedGrad* find(const std::string& grad) const;
};

// All clips, whether the optimizer or its parameters asked for them.
ServerClips find_server_clips(const UpdateOps& ops);

}  // namespace trireme
