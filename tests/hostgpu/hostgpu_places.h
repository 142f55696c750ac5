// Opens the device without a GPU as CUDAPlace, and compares what it computes with the CPU.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "core/device.h"
#include "core/flags.h"
#include "core/text.h"
#include "runtime/executor.h"

namespace trireme::testing {

inline Place hostgpu_place(int id = 0) {
  static const bool opened = [] {
    set_flag("gpu_library", std::string(TRIREME_HOSTGPU));
    return device_count(DeviceKind::cuda) > 0;
  }();
  EXPECT_TRUE(opened);
  return cuda_place(id);
}

// Nothing where they are the same, bit for bit; else what differs.
inline std::string difference(const Tensor& cpu, const Tensor& gpu) {
  if (cpu.initialized() != gpu.initialized()) return "one of them holds nothing";
  if (!cpu.initialized()) return {};
  const Tensor here = gpu.on_host();
  if (cpu.dtype() != here.dtype() || !(cpu.shape() == here.shape()) || cpu.lod() != here.lod()) {
    return cat(cpu.describe(), " and ", here.describe());
  }
  if (cpu.byte_size() == 0 || std::memcmp(cpu.address(), here.address(), cpu.byte_size()) == 0) {
    return {};
  }
  for (int64_t i = 0; i < cpu.numel(); ++i) {
    const double a = element_as_double(cpu, i), b = element_as_double(here, i);
    if (!(a == b)) return cat("element ", i, " is ", a, " and ", b);
  }
  return "bits that are no numbers differ";
}

inline std::string difference(const Variable& cpu, const Variable& gpu) {
  if (cpu.kind() != gpu.kind()) return cat(cpu.describe(), " and ", gpu.describe());
  if (cpu.kind() == Kind::dense) return difference(cpu.tensor(), gpu.tensor());
  if (cpu.kind() == Kind::rows) {
    if (!(cpu.rows().rows == gpu.rows().rows.to(cpu_place()))) return "other rows";
    return difference(cpu.rows().value, gpu.rows().value);
  }
  if (cpu.kind() == Kind::array) {
    if (cpu.array().size() != gpu.array().size()) return "arrays of other sizes";
    for (size_t i = 0; i < cpu.array().size(); ++i) {
      const std::string found = difference(cpu.array()[i], gpu.array()[i]);
      if (!found.empty()) return cat("element ", i, ": ", found);
    }
  }
  return {};
}

// Every variable of the scope.
inline std::string difference(const Scope& cpu, const Scope& gpu) {
  if (cpu.names() != gpu.names()) return "other variables";
  for (const std::string& name : cpu.names()) {
    const std::string found = difference(*cpu.find_local(name), *gpu.find_local(name));
    if (!found.empty()) return cat(name, ": ", found);
  }
  return {};
}

}  // namespace trireme::testing
