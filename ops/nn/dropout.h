// What dropout's attributes say, and where its mask comes from, for kernels of every device.
#pragma once

#include "core/device.h"
#include "core/tensor.h"
#include "ops/tensor/random_source.h"

namespace trireme {

struct DropoutOptions {
  double probability;
  bool is_test;
  bool upscale;  // kept elements grow while training, else all shrink while testing

  explicit DropoutOptions(const OpView& op)
      : probability(op.attr<float>("dropout_prob")),
        is_test(op.attr<bool>("is_test")),
        upscale(op.attr<std::string>("dropout_implementation") == "upscale_in_train") {}

  double kept_share() const { return 1 - probability; }
  double train_scale() const {
    if (!upscale) return 1;
    return probability < 1 ? 1 / kept_share() : 0;
  }
  double test_scale() const { return upscale ? 1 : kept_share(); }
};

// A seed the user fixed (fix_seed, or the tensor Seed) drops the same elements at every run. A seed
// that comes from the program drops others at every step, the same ones when the training repeats.
// The tensor alone names its numbers, so that two ops given one seed drop the same elements.
class MaskSource {
 public:
  explicit MaskSource(const KernelSite& site)
      : seed_at_(site.position("Seed")),
        own_(site.attr<bool>("fix_seed")
                 ? RandomSource(static_cast<uint64_t>(site.attr<int64_t>("seed")),
                                random_stream(site), PerStep::repeat)
                 : random_source(site, PerStep::change)) {}

  RandomSource of_run(const KernelArgs& k) const {
    if (!k.has_in(seed_at_)) return own_;
    if (k.queue) device_of(k.in(seed_at_).place()).synchronize(*k.queue);
    const auto seed = static_cast<int64_t>(element_as_double(k.in(seed_at_).on_host(), 0));
    return RandomSource(static_cast<uint64_t>(seed), stream_of("dropout"), PerStep::repeat);
  }

 private:
  int seed_at_;
  RandomSource own_;
};

}  // namespace trireme
