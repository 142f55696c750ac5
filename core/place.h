// Where memory and kernels live.
#pragma once

#include <string>

namespace trireme {

enum class Device { cpu, cuda, cuda_pinned };

struct Place {
  Device device = Device::cpu;
  int id = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

inline Place cpu_place() { return {}; }
inline Place cuda_place(int id) { return {Device::cuda, id}; }
std::string to_string(const Place& place);  // "cpu", "gpu:0", "gpu_pinned"

}  // namespace trireme
