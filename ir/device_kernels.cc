// The tables of the kinds of devices: each is filled by its source at first use and then only read.
#include "ir/device_kernels.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "core/device_library.h"
#include "core/text.h"

namespace trireme {
namespace {

struct KindTable {
  std::mutex mutex;
  AddKernels source;                            // guarded by the mutex, as the next one is
  std::unique_ptr<const DeviceKernels> filled;  // before `ready` shows it to all
  std::atomic<const DeviceKernels*> ready{nullptr};
};

constexpr std::array kKinds = {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::cuda_pinned};

KindTable& table_of(DeviceKind kind) {
  static std::array<KindTable, kKinds.size()> tables;
  return tables.at(static_cast<size_t>(kind));
}

const char* name_of_kind(DeviceKind kind) {
  return kind == DeviceKind::cpu ? "cpu" : kind == DeviceKind::cuda ? "gpu" : "gpu_pinned";
}

}  // namespace

const DeviceKernels& device_kernels(DeviceKind kind) {
  KindTable& table = table_of(kind);
  if (const DeviceKernels* ready = table.ready.load(std::memory_order_acquire)) return *ready;
  const std::lock_guard lock(table.mutex);
  if (table.filled) return *table.filled;
  if (!table.source && kind == DeviceKind::cuda) {
    using Add = void (*)(DeviceKernels&);
    if (void* add = device_library_symbol("trireme_add_kernels")) {
      table.source = reinterpret_cast<Add>(add);
    }
  }
  if (!table.source) {
    throw Error(ErrorKind::unimplemented, cat("there are no kernels for ", name_of_kind(kind)))
        .fix("open the device's library first, or use CPUPlace()");
  }
  auto made = std::make_unique<DeviceKernels>(kind);
  table.source(*made);
  table.filled = std::move(made);
  table.ready.store(table.filled.get(), std::memory_order_release);
  return *table.filled;
}

void DeviceKernels::add(const OpSchema& row, Kernel kernel) {
  kernels_[&row].push_back(std::move(kernel));
}

const std::vector<Kernel>& DeviceKernels::of(const OpSchema& row) const {
  static const std::vector<Kernel> none;
  const auto found = kernels_.find(&row);
  return found == kernels_.end() ? none : found->second;
}

void set_kernel_source(DeviceKind kind, AddKernels add) {
  if (kind == DeviceKind::cpu) throw InternalError("the CPU's kernels stand in the rows");
  KindTable& table = table_of(kind);
  const std::lock_guard lock(table.mutex);
  if (table.filled || table.source) {
    throw Error(ErrorKind::already_exists,
                cat("the kernels of ", name_of_kind(kind), " have a source already"))
        .fix("open one library per kind of device");
  }
  table.source = std::move(add);
}

const std::vector<Kernel>& kernels_for(const OpSchema& row, DeviceKind kind) {
  return kind == DeviceKind::cpu ? row.kernels() : device_kernels(kind).of(row);
}

}  // namespace trireme
