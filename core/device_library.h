// What a plugin library of devices gives, and how it takes its place.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/device.h"

namespace trireme {

// The library exports
//   extern "C" void trireme_open_devices(trireme::DeviceLibrary& library);
// which fills this in. It is opened when a GPU is first asked for and never closed: the file that
// FLAGS_gpu_library names, else libtrireme_cuda.so beside Trireme's own library.
struct DeviceLibrary {
  int count = 0;  // visible devices, numbered from 0
  std::function<Device*(int id)>
      device;           // asked once for each that is used; it stays the library's
  std::string problem;  // why there is none: "the NVIDIA driver is not installed"
};

// What the opened library exports under this name; null where it exports no such thing.
void* device_library_symbol(const char* name);

// Takes the place of the library that is opened, or of none: nullopt lets the next use open one.
// For tests. The devices outlive their tensors.
void use_device_library(std::optional<DeviceLibrary> library);

}  // namespace trireme
