// The library of CONTRIBUTING.md's device, as it is printed there.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "core/device_library.h"
#include "core/error.h"
#include "core/text.h"
#include "ir/device_kernels.h"

using namespace trireme;  // NOLINT: two functions have no namespace of their own

#include "contributing/device.inc"
