// Stretches of a plan that the device runs again as one piece of work, once they repeat.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compile/plan.h"
#include "core/device.h"
#include "runtime/binding.h"

namespace trireme {

// Neighbours in the device's compute queue that draw no random numbers: what each of them puts into
// the queue follows from where its operands stand, and nothing else. When that was the same for two
// runs, the third one is captured, and replayed from then on for as long as it stays so.
class Replays {
 public:
  struct Stretch {
    int begin = 0, end = 0;    // instructions
    std::vector<int> waits;    // for whom it waits, outside of it
    std::vector<int> signals;  // who of it is waited for
    uint64_t bound = 0;        // the segment's number when it was last looked at
    bool fits = false;         // as bound then
    int seen = 0;              // runs in a row with the same addresses
    int changes = 0;           // runs with other ones
    std::vector<const void*> addresses, now;
    std::unique_ptr<Captured> work;
  };

  explicit Replays(const Plan& plan);
  // The stretch that begins at the instruction; null: none.
  Stretch* at(int instruction) const { return by_begin_[static_cast<size_t>(instruction)]; }
  size_t size() const { return all_.size(); }
  size_t captured() const;  // how many are replayed as things stand

  // Whether it may be replayed where its operands stand now; `scratch` gives an instruction's.
  template <class Scratch>
  static bool repeats(Stretch& stretch, Binding& binding, size_t segment, const Scratch& scratch) {
    if (stretch.bound != binding.number(segment)) forget(stretch, binding, segment);
    if (!stretch.fits) return false;
    stretch.now.clear();
    for (int i = stretch.begin; i < stretch.end; ++i) {
      const BoundInstruction& bound = binding.instruction(i);
      add_addresses(stretch.now, bound.ins);
      add_addresses(stretch.now, bound.outs);
      stretch.now.push_back(scratch(i, bound));
    }
    return same_again(stretch);
  }

 private:
  static void forget(Stretch& stretch, Binding& binding, size_t segment);
  static void add_addresses(std::vector<const void*>& to, const std::vector<Variable*>& variables);
  static bool same_again(Stretch& stretch);

  std::vector<std::unique_ptr<Stretch>> all_;
  std::vector<Stretch*> by_begin_;  // by instruction
};

}  // namespace trireme
