// Asks the machine what passes may know about it: the processor once, other devices by their
// library.
#include "compile/target.h"

#include "compile/memory_plan.h"
#include "core/flags.h"
#include "cpu/onednn.h"
#include "cpu/vectorised.h"
#include "ir/device_kernels.h"

namespace trireme {

const Target& cpu_target() {
  static const Target target{
      .device = DeviceKind::cpu,
      .lanes = vector_width() == VectorWidth::avx512 ? 16 : 8,
      .alignment = kArenaAlignment,
      .blocked_images = has_onednn() && vector_width() != VectorWidth::base,
      .shared_memory = true,
  };
  return target;
}

Target target_of(const Place& place) {
  if (place.kind == DeviceKind::cpu) return cpu_target();
  const DeviceFacts& facts = device_kernels(place.kind).facts;
  return {.device = place.kind,
          .lanes = facts.lanes,
          .alignment = facts.alignment,
          .blocked_images = facts.blocked_images,
          .copy_queues = facts.copy_queues,
          .half_tiles = facts.half_tiles,
          .channel_last = facts.channel_last,
          .rounds_float = facts.channel_last && std::get<bool>(get_flag("allow_tf32")),
          .shared_memory = facts.shared_memory};
}

}  // namespace trireme
