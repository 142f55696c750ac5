// The reference kernel of batch normalisation: statistics, then one sweep that normalises, adds and
// activates.
#include "ops/nn/batch_norm_steps.h"

namespace trireme {
template <class T>
BoundKernel batch_norm(const KernelSite& site, const NormActivation& act) {
  const ChannelPlanes planes = norm_planes(site, site.in("X").shape);
  promise(planes.block == 0, "only float32 images stand in blocks");
  return BoundKernel(
      [=, at = NormPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const T* x = k.in<T>(at.x);
        const T* z = k.has_in(at.z) ? k.in<T>(at.z) : nullptr;
        T* y = k.out<T>(at.y);
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          const Strip strip = planes.channel(c);
          const bool measures = use.measures(strip.count());
          const Moments found = measures ? moments(strip, x) : Moments{};
          const NormLine<T> line = settle_channel<T>(k, at, use, c, measures ? &found : nullptr);
          with_finish<T>(act, z, [&](const auto& finish) {
            vectorised([=] {
              strip.runs([=](int64_t first, int64_t n) {
                for (int64_t i = first; i < first + n; ++i) {
                  y[i] = finish((x[i] - line.shift) * line.factor + line.add, i);
                }
              });
            });
          });
        }
      },
      norm_parts(planes.channels, planes.size()));
}

template BoundKernel batch_norm<float>(const KernelSite&, const NormActivation&);
template BoundKernel batch_norm<double>(const KernelSite&, const NormActivation&);

}  // namespace trireme
