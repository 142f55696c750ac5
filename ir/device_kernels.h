// Kernels of devices other than the CPU, which a device's library adds when it is opened.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "core/place.h"
#include "ir/schema.h"

namespace trireme {

// What passes may know about a device (compile/target.h); its library says it beside its kernels.
struct DeviceFacts {
  int lanes = 1;
  size_t alignment = 256;
  bool blocked_images = false;
  bool shared_memory = false;
  bool copy_queues = true;  // copies run beside kernels; else in their queue, one behind another
  bool half = true;         // float16 and bfloat16 stay there; else the host computes with those
  bool half_tiles = false;  // its p.fused takes steps of float16 and bfloat16
  // Convolutions of rounded operands are fastest where an image's channels stand side by side.
  bool channel_last = false;
};

// The kernels of one kind of device, by row. Rows are those of op_table(), gradient rows included.
class DeviceKernels {
 public:
  explicit DeviceKernels(DeviceKind kind) : kind_(kind) {}

  DeviceKind kind() const { return kind_; }
  // Tried in the order in which they were added.
  void add(const OpSchema& row, Kernel kernel);
  const std::vector<Kernel>& of(const OpSchema& row) const;  // none: empty

  DeviceFacts facts;

 private:
  DeviceKind kind_;
  std::map<const OpSchema*, std::vector<Kernel>> kernels_;
};

using AddKernels = std::function<void(DeviceKernels&)>;

// Says who adds the kernels of a kind, where it is not the opened device library's
//   extern "C" void trireme_add_kernels(trireme::DeviceKernels& kernels);
// A kind has one source, which is called once, when the kind is first asked for; from then on its
// table is only read.
void set_kernel_source(DeviceKind kind, AddKernels add);

// What the kind's source has added. Any thread may ask. An Error says that the kind has no source;
// what the source throws goes through, and the next call asks it again.
const DeviceKernels& device_kernels(DeviceKind kind);

// The kernels to try on a device of this kind, best first; the CPU's are the row's own.
const std::vector<Kernel>& kernels_for(const OpSchema& row, DeviceKind kind);

}  // namespace trireme
