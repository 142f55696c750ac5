// Which numbers a random op draws: its seed, its stream, and whether they change from run to run.
#pragma once

#include "core/random.h"
#include "ir/kernel.h"

namespace trireme {

enum class PerStep {
  repeat,  // the same numbers at every run
  change,  // other numbers at every run, the same sequence of runs for the same seed
};

// A stream hangs on the op's number among the random ops of its program (kRandomPosition), which
// the op keeps, so that removing, moving or copying ops leaves every other op's numbers as they
// are. Inside a loop each iteration has numbers of its own.
class RandomSource {
 public:
  // No seed asks for the process's own, and then draws always change.
  RandomSource(std::optional<uint64_t> seed, uint64_t stream, PerStep draws, uint64_t first = 0)
      : seed_(seed), stream_(stream), first_(first), draws_(seed ? draws : PerStep::change) {}

  Philox philox(const KernelArgs& k) const;
  // The seed, where the flag original_random wants the original's numbers drawn from it.
  std::optional<uint64_t> original_seed() const;
  uint64_t first() const { return first_; }

 private:
  std::optional<uint64_t> seed_;
  uint64_t stream_;
  uint64_t first_;  // elements of the stream before those drawn
  PerStep draws_;
};

// The op's source, seeded by its attribute `seed`; 0 stands for none.
RandomSource random_source(const KernelSite& site, PerStep draws = PerStep::repeat);

// One seed out of two numbers; neighbours give unrelated seeds.
uint64_t mix_seed(uint64_t seed, uint64_t with);

// How many parts `count` drawn elements are worth, by their number alone.
int draw_parts(int64_t count);

}  // namespace trireme
