// Where memory and kernels live.
#pragma once

#include <string>

namespace trireme {

enum class DeviceKind { cpu, cuda, cuda_pinned };

struct Place {
  DeviceKind kind = DeviceKind::cpu;
  int id = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

inline Place cpu_place() { return {}; }
inline Place cuda_place(int id) { return {DeviceKind::cuda, id}; }
// Whether the host reads and writes memory there; pinned memory is the host's, too.
inline bool in_host_memory(const Place& place) { return place.kind != DeviceKind::cuda; }
std::string to_string(const Place& place);  // "cpu", "gpu:0", "gpu_pinned"

}  // namespace trireme
