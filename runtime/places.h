// Which devices a data-parallel program runs on when the caller names none.
#pragma once

#include <vector>

#include "core/place.h"

namespace trireme {

// What the environment says: CPU_NUM places of the CPU; the GPUs of FLAGS_selected_gpus, else all
// that CUDA_VISIBLE_DEVICES leaves. An Error where there is none, or fewer than were chosen.
std::vector<Place> default_places(DeviceKind device);

}  // namespace trireme
