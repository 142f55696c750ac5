// Names of places.
#include "core/place.h"

namespace trireme {

std::string to_string(const Place& place) {
  switch (place.device) {
    case Device::cpu:
      return "cpu";
    case Device::cuda:
      return "gpu:" + std::to_string(place.id);
    case Device::cuda_pinned:
      return "gpu_pinned";
  }
  return "unknown";
}

}  // namespace trireme
