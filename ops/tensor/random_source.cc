// Seeds and streams of random ops.
#include "ops/tensor/random_source.h"

#include "core/flags.h"
#include "ops/run_context.h"

namespace trireme {

uint64_t mix_seed(uint64_t seed, uint64_t with) {
  const std::array<uint32_t, 4> words = Philox(seed, stream_of("mix_seed")).block(with);
  return uint64_t{words[0]} << 32 | words[1];
}

Philox RandomSource::philox(const KernelArgs& k) const {
  uint64_t seed = seed_ ? *seed_ : k.run->process_seed();
  if (draws_ == PerStep::change) seed = mix_seed(seed, k.run->step());
  if (const uint64_t iteration = k.run->iteration(); iteration > 0)
    seed = mix_seed(seed, iteration);
  const RunContext::StreamOffset draw = k.run->stream_offset();
  if (draw.replica > 0) seed = mix_seed(seed, draw.replica);
  return Philox(seed, stream_, first_ + draw.before);
}

std::optional<uint64_t> RandomSource::original_seed() const {
  return draws_original_numbers() ? seed_ : std::nullopt;
}

RandomSource random_source(const KernelSite& site, PerStep draws) {
  const auto seed = static_cast<uint64_t>(site.attr<int64_t>("seed"));
  return RandomSource(seed == 0 ? std::nullopt : std::optional(seed), random_stream(site), draws,
                      static_cast<uint64_t>(stream_begin(site)));
}

int draw_parts(int64_t count) {
  constexpr int64_t kElementsPerPart = 32768;
  constexpr int64_t kMostParts = 64;
  return static_cast<int>(std::clamp<int64_t>(count / kElementsPerPart, 1, kMostParts));
}

}  // namespace trireme
