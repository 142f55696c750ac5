// The first GPU, and how near its numbers are to the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "core/device.h"
#include "core/text.h"
#include "runtime/executor.h"

namespace trireme::testing {

inline bool has_gpu() { return device_count(DeviceKind::cuda) > 0; }

// Nothing where they agree to the precision of their type, relative to the largest number of the
// tensor; whole numbers agree exactly.
inline std::string disagreement(const Tensor& one, const Tensor& gpu, double float_bound) {
  if (one.initialized() != gpu.initialized()) return "one of them holds nothing";
  if (!one.initialized()) return {};
  const Tensor cpu = one.on_host(), here = gpu.on_host();
  if (cpu.dtype() != here.dtype() || !(cpu.shape() == here.shape()) || cpu.lod() != here.lod()) {
    return cat(cpu.describe(), " and ", here.describe());
  }
  const double bound = cpu.dtype() == DType::float64   ? 1e-12
                       : cpu.dtype() == DType::float32 ? float_bound
                       : is_floating(cpu.dtype())      ? 1e-2
                                                       : 0;
  double largest = 0;
  for (int64_t i = 0; i < cpu.numel(); ++i) {
    const double a = std::abs(element_as_double(cpu, i));
    if (std::isfinite(a)) largest = std::max(largest, a);
  }
  for (int64_t i = 0; i < cpu.numel(); ++i) {
    const double a = element_as_double(cpu, i), b = element_as_double(here, i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    if (!same && !(std::abs(a - b) <= bound * std::max(largest, 1e-3))) {
      return cat("element ", i, " is ", a, " and ", b);
    }
  }
  return {};
}

inline std::string disagreement(const Variable& cpu, const Variable& gpu, double float_bound) {
  if (cpu.kind() != gpu.kind()) return cat(cpu.describe(), " and ", gpu.describe());
  if (cpu.kind() == Kind::dense) return disagreement(cpu.tensor(), gpu.tensor(), float_bound);
  if (cpu.kind() == Kind::rows) {
    if (!(cpu.rows().rows.to(cpu_place()) == gpu.rows().rows.to(cpu_place()))) return "other rows";
    return disagreement(cpu.rows().value, gpu.rows().value, float_bound);
  }
  if (cpu.kind() == Kind::array) {
    if (cpu.array().size() != gpu.array().size()) return "arrays of other sizes";
    for (size_t i = 0; i < cpu.array().size(); ++i) {
      const std::string found = disagreement(cpu.array()[i], gpu.array()[i], float_bound);
      if (!found.empty()) return cat("element ", i, ": ", found);
    }
  }
  return {};
}

inline std::string disagreement(const Scope& cpu, const Scope& gpu, double float_bound) {
  if (cpu.names() != gpu.names()) return "other variables";
  for (const std::string& name : cpu.names()) {
    const std::string found =
        disagreement(*cpu.find_local(name), *gpu.find_local(name), float_bound);
    if (!found.empty()) return cat(name, ": ", found);
  }
  return {};
}

}  // namespace trireme::testing
