// Asks the machine, once, what passes may know about it.
#include "compile/target.h"

#include "compile/memory_plan.h"
#include "core/error.h"
#include "core/text.h"
#include "cpu/onednn.h"
#include "cpu/vectorised.h"

namespace trireme {

const Target& cpu_target() {
  static const Target target{
      .device = Device::cpu,
      .lanes = vector_width() == VectorWidth::avx512 ? 16 : 8,
      .alignment = kArenaAlignment,
      .blocked_images = has_onednn() && vector_width() != VectorWidth::base,
      .shared_memory = true,
  };
  return target;
}

Target target_of(const Place& place) {
  if (place.device == Device::cpu) return cpu_target();
  throw Error(ErrorKind::unimplemented, cat("there are no kernels for ", to_string(place)))
      .fix("use CPUPlace()");
}

}  // namespace trireme
