// Names of places.
#include "core/place.h"

namespace trireme {

std::string to_string(const Place& place) {
  switch (place.kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "gpu:" + std::to_string(place.id);
    case DeviceKind::cuda_pinned:
      return "gpu_pinned";
  }
  return "unknown";
}

}  // namespace trireme
