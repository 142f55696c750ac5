// Copies between the host and a device, as kernels of the device's queues.
#include "runtime/device_queues.h"

namespace trireme {

BoundKernel transfer_kernel(Device& device) {
  const auto copy = [&device](Queue& queue, void* to, const void* from, size_t bytes) {
    if (bytes > 0) device.copy(queue, to, from, bytes);
  };
  BoundKernel kernel([copy](const KernelArgs& k) {
    const Variable& from = *k.ins[0];
    Variable& to = *k.outs[0];
    if (from.kind() == Kind::rows) {
      const SelectedRows& source = from.rows();
      SelectedRows& target = to.rows();
      copy(*k.queue, target.rows.address(), source.rows.address(),
           source.rows.size() * sizeof(int64_t));
      return copy(*k.queue, target.value.address(), source.value.address(),
                  source.value.byte_size());
    }
    copy(*k.queue, to.tensor().address(), from.tensor().address(), from.tensor().byte_size());
  });
  kernel.runs = Runs::queue;
  return kernel;
}

}  // namespace trireme
