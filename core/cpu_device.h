// The host as a device: work is done when the call that asks for it returns.
#pragma once

#include "core/device.h"

namespace trireme {

Device& cpu_device();

}  // namespace trireme
