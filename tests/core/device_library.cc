// A plugin library of two fake devices, as opened from a file.
#include "core/device_library.h"

#include <cstdlib>

#include "tests/core/fake_device.h"

extern "C" void trireme_open_devices(trireme::DeviceLibrary& library) {
  if (const char* problem = std::getenv("FAKE_DEVICES_PROBLEM")) {
    library.problem = problem;
    return;
  }
  library.count = 2;
  library.device = [](int id) -> trireme::Device* {
    return new trireme::testing::FakeDevice(id);  // to the end of the process
  };
}
