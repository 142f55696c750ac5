// Which devices a data-parallel program runs on when the caller names none.
#pragma once

#include <vector>

#include "core/place.h"

namespace trireme {

// What the environment says: CPU_NUM places of the CPU; the GPUs of FLAGS_selected_gpus or
// CUDA_VISIBLE_DEVICES. GPUs are an Error in this build, which has none; it says which were chosen
// and by what.
std::vector<Place> default_places(DeviceKind device);

}  // namespace trireme
