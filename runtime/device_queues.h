// The queues of one run on a device, and the host's waits for them.
#pragma once

#include <memory>

#include "compile/plan.h"
#include "core/device.h"

namespace trireme {

class DeviceQueues {
 public:
  DeviceQueues(Device& device, const Target& target)
      : device_(device), compute_(device.make_queue(QueueKind::compute)) {
    if (!target.copy_queues) return;
    upload_ = device.make_queue(QueueKind::upload);
    download_ = device.make_queue(QueueKind::download);
  }

  Device& device() { return device_; }
  Queue* of(Runner runner) {  // null: the host runs it
    switch (runner) {
      case Runner::compute:
        return compute_.get();
      case Runner::upload:
        return upload_.get();
      case Runner::download:
        return download_.get();
      case Runner::host:
        break;
    }
    return nullptr;
  }
  // Whoever runs what comes next waits for the event: a queue, or the host.
  void wait(Runner runner, Event& event) {
    if (Queue* queue = of(runner)) return device_.wait(*queue, event);
    device_.synchronize(event);
  }
  void synchronize() {  // the host waits for all that is in the queues
    for (Queue* queue : {upload_.get(), compute_.get(), download_.get()}) {
      if (queue) device_.synchronize(*queue);
    }
  }

 private:
  Device& device_;
  std::unique_ptr<Queue> compute_, upload_, download_;  // the last two where copies have their own
};

// A kernel of the device itself: copies a tensor or selected rows from one memory to the other.
BoundKernel transfer_kernel(Device& device);

}  // namespace trireme
