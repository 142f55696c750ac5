// Brings a kernel's whole numbers to the cards that it runs on.
#include "cuda/kernels/device_table.h"

#include <map>
#include <mutex>

#include "cuda/cuda_error.h"

namespace trireme::cuda {

struct DeviceTable::Held {
  std::vector<int64_t> numbers;
  std::mutex mutex;
  std::map<int, std::pair<CudaDevice*, void*>> by_card;

  ~Held() {
    for (const auto& [card, there] : by_card) {
      if (there.second) there.first->release(there.second, MemoryKind::device);
    }
  }
};

DeviceTable::DeviceTable(std::vector<int64_t> numbers) : held_(std::make_shared<Held>()) {
  held_->numbers = std::move(numbers);
}

const void* DeviceTable::on(CudaQueue& queue) const {
  const std::lock_guard lock(held_->mutex);
  auto& [device, memory] = held_->by_card[queue.device.id()];
  if (!memory) {
    const size_t bytes = held_->numbers.size() * sizeof(int64_t);
    device = &queue.device;
    memory = device->allocate(bytes, MemoryKind::device);
    device->copy(queue, memory, held_->numbers.data(), bytes);
    check(cudaStreamSynchronize(queue.in_order()), "cudaStreamSynchronize");
  }
  return memory;
}

}  // namespace trireme::cuda
