// Whole numbers that a kernel reads on its card and that are known when it is bound: where
// sequences begin, in which order they run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/cuda_device.h"

namespace trireme::cuda {

// Copies share what they hold. The first run on a card brings the numbers there and waits for it:
// a run that is captured is never the first.
class DeviceTable {
 public:
  explicit DeviceTable(std::vector<int64_t> numbers);
  const void* on(CudaQueue& queue) const;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

}  // namespace trireme::cuda
