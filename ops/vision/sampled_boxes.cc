// What ops that choose boxes for training share.
#include "ops/vision/sampled_boxes.h"

#include <algorithm>

#include "ops/sequence/sequence_rules.h"

namespace trireme {

std::vector<int64_t> sequence_of_every_image(const KernelSite& site, const char* slot,
                                             int64_t images) {
  std::vector<int64_t> ends = bound_offsets(site, slot);
  if (static_cast<int64_t>(ends.size()) == images + 1) return ends;
  throw site.error(cat(slot, " has ", ends.size() - 1, " sequences but ImInfo ", images, " images"))
      .fix(cat("feed ", slot, " with a sequence for every image"));
}

BoxSource box_source(const KernelSite& site, bool random) {
  return random ? BoxSource(random_source(site, PerStep::change)) : std::nullopt;
}

BoxSampler::BoxSampler(const BoxSource& source, const KernelArgs& k) {
  if (source) philox_ = source->philox(k);
}

Tensor draw_boxes(Draw& draw, int64_t count) {
  Tensor boxes = draw.uniform({count, 4}, 0.1, 4.9);
  auto* corners = boxes.data<double>();
  for (int64_t i = 0; i < 4 * count; ++i) {
    if (i % 4 > 1) corners[i] += corners[i - 2] + 1;
  }
  return boxes;
}

void BoxSampler::keep(std::vector<int32_t>& all, int64_t most) {
  if (most < 0 || static_cast<int64_t>(all.size()) <= most) return;
  for (int64_t i = 0; philox_ && i < most; ++i) {
    const auto left = static_cast<double>(static_cast<int64_t>(all.size()) - i);
    const auto pick = static_cast<int64_t>(philox_->uniform(drawn_++) * left);
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(i + pick)]);
  }
  all.resize(static_cast<size_t>(most));
  if (philox_) std::sort(all.begin(), all.end());
}

}  // namespace trireme
