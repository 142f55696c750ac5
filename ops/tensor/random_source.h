// Which numbers a random op draws: its seed, its stream, and whether they change from run to run.
#pragma once

#include "core/random.h"
#include "ir/kernel.h"

namespace trireme {

enum class PerStep {
  repeat,  // the same numbers at every run
  change,  // other numbers at every run, the same sequence of runs for the same seed
};

// A stream has the name of the variable it fills, so that adding, removing or moving an op leaves
// every other op's numbers as they are. Inside a loop each iteration has numbers of its own.
class RandomSource {
 public:
  // No seed asks for the process's own, and then draws always change.
  RandomSource(std::optional<uint64_t> seed, uint64_t stream, PerStep draws, uint64_t first = 0)
      : seed_(seed), stream_(stream), first_(first), draws_(seed ? draws : PerStep::change) {}

  Philox philox(const KernelArgs& k) const;

 private:
  std::optional<uint64_t> seed_;
  uint64_t stream_;
  uint64_t first_;  // elements of the stream before those drawn
  PerStep draws_;
};

// The source of `slot`, seeded by the op's attribute `seed`; 0 stands for none.
RandomSource random_source(const KernelSite& site, std::string_view slot,
                           PerStep draws = PerStep::repeat);

// One seed out of two numbers; neighbours give unrelated seeds.
uint64_t mix_seed(uint64_t seed, uint64_t with);

// How many parts `count` drawn elements are worth, by their number alone.
int draw_parts(int64_t count);

}  // namespace trireme
