// Memory, queues and events of the device without a GPU.
#include "tests/support/hostgpu/hostgpu.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace trireme::hostgpu {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kPoison = 0xff;  // NaN in every floating type

size_t rounded(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

HostQueue& own(Queue& queue) { return static_cast<HostQueue&>(queue); }

class HostCaptured : public Captured {
 public:
  explicit HostCaptured(std::vector<Task> tasks) : tasks_(std::move(tasks)) {}
  void replay(Queue& queue) override {
    for (const Task& task : tasks_) own(queue).put(task.run);
  }

 private:
  std::vector<Task> tasks_;
};

}  // namespace

HostQueue::HostQueue(HostGpu& device) : device(device) {}

HostQueue::~HostQueue() {
  const std::lock_guard lock(device.mutex_);
  std::erase(device.queues_, this);
}

void HostQueue::put(std::function<void()> work) {
  const std::lock_guard lock(device.mutex_);
  if (captured) {
    captured->push_back({.run = std::move(work)});
  } else {
    tasks.push_back({.run = std::move(work)});
  }
}

// The same pages twice: where the host may not look, and where the device's own work does.
HostGpu::HostGpu(int id, size_t memory_bytes, uint64_t seed)
    : id_(id), size_(memory_bytes), random_(seed) {
  const int file = memfd_create("hostgpu", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0) {
    throw Error(ErrorKind::unavailable, "hostgpu cannot get memory of its own");
  }
  void* window = mmap(nullptr, size_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (window == MAP_FAILED || memory == MAP_FAILED) {
    throw Error(ErrorKind::unavailable, "hostgpu cannot map its memory");
  }
  window_ = static_cast<std::byte*>(window);
  memory_ = static_cast<std::byte*>(memory);
  free_[0] = size_;
}

HostGpu::~HostGpu() {
  munmap(window_, size_);
  munmap(memory_, size_);
}

std::string HostGpu::describe() const { return cat("hostgpu ", id_); }

void* HostGpu::allocate(size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::pinned) return ::operator new (rounded(bytes), std::align_val_t{64});
  const std::lock_guard lock(mutex_);
  const size_t wanted = rounded(bytes);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    if (size < wanted) continue;
    free_.erase(it);
    if (size > wanted) free_[offset + wanted] = size - wanted;
    used_[offset] = wanted;
    in_use_ += wanted;
    std::memset(memory_ + offset, kPoison, wanted);
    return window_ + offset;
  }
  throw Error(ErrorKind::resource_exhausted,
              cat("no memory left on ", to_string(place()), " for ", bytes, " bytes; ", in_use_,
                  " of ", size_, " are in use"));
}

// Work that is still to come and reads it reads poison: whoever frees too early gets wrong numbers.
void HostGpu::release(void* memory, MemoryKind kind) noexcept {
  if (kind == MemoryKind::pinned) return ::operator delete (memory, std::align_val_t{64});
  const std::lock_guard lock(mutex_);
  size_t offset = static_cast<size_t>(static_cast<std::byte*>(memory) - window_);
  const auto found = used_.find(offset);
  if (found == used_.end()) std::abort();  // freed twice, or never given
  size_t size = found->second;
  used_.erase(found);
  in_use_ -= size;
  constexpr size_t kPage = 4096, kLarge = size_t{1} << 20;
  if (size >= kLarge) {  // back to the system: what is read there now is zero
    const size_t first = (offset + kPage - 1) / kPage * kPage,
                 end = (offset + size) / kPage * kPage;
    (void)madvise(memory_ + first, end - first, MADV_REMOVE);
  } else {
    std::memset(memory_ + offset, kPoison, size);
  }
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_[offset] = size;
}

std::unique_ptr<Queue> HostGpu::make_queue(QueueKind) {
  const std::lock_guard lock(mutex_);
  auto queue = std::make_unique<HostQueue>(*this);
  queues_.push_back(queue.get());
  return queue;
}

std::unique_ptr<Event> HostGpu::make_event() { return std::make_unique<HostEvent>(); }

bool HostGpu::owns(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= window_ && at < window_ + size_;
}

void* HostGpu::reach(const void* address) const {
  if (!owns(address)) return const_cast<void*>(address);
  return memory_ + (static_cast<const std::byte*>(address) - window_);
}

void HostGpu::copy(Queue& queue, void* to, const void* from, size_t bytes) {
  own(queue).put([this, to, from, bytes] { std::memcpy(reach(to), reach(from), bytes); });
}

void HostGpu::record(Queue& queue, Event& event) {
  const std::lock_guard lock(mutex_);
  auto& mark = static_cast<HostEvent&>(event);
  ++mark.recorded;
  own(queue).tasks.push_back({.run = {}, .reaches = &mark});
}

void HostGpu::wait(Queue& queue, Event& event) {
  const std::lock_guard lock(mutex_);
  const auto& mark = static_cast<HostEvent&>(event);
  own(queue).tasks.push_back({.run = {}, .waits = &mark, .until = mark.recorded});
}

bool HostGpu::run_one() {
  std::vector<HostQueue*> able;
  for (HostQueue* queue : queues_) {
    if (queue->tasks.empty()) continue;
    const Task& next = queue->tasks.front();
    if (!next.waits || next.waits->reached >= next.until) able.push_back(queue);
  }
  if (able.empty()) return false;
  HostQueue& chosen = *able[random_() % able.size()];
  Task task = std::move(chosen.tasks.front());
  chosen.tasks.pop_front();
  if (task.run) task.run();
  if (task.reaches) ++task.reaches->reached;
  return true;
}

void HostGpu::run_until(const std::function<bool()>& reached) {
  while (!reached()) {
    if (!run_one()) {
      throw InternalError("hostgpu waits for an event that nobody will record");
    }
  }
}

// Whoever only asks moves the device on by a little.
bool HostGpu::done(const Event& event) {
  const std::lock_guard lock(mutex_);
  const auto& mark = static_cast<const HostEvent&>(event);
  if (mark.reached < mark.recorded) run_one();
  return mark.reached >= mark.recorded;
}

void HostGpu::synchronize(const Event& event) {
  const std::lock_guard lock(mutex_);
  const auto& mark = static_cast<const HostEvent&>(event);
  run_until([&] { return mark.reached >= mark.recorded; });
}

void HostGpu::synchronize(Queue& queue) {
  const std::lock_guard lock(mutex_);
  run_until([&] { return own(queue).tasks.empty(); });
}

std::unique_ptr<Captured> HostGpu::capture(Queue& queue, const std::function<void()>& work) {
  std::vector<Task> tasks;
  own(queue).captured = &tasks;
  try {
    work();
  } catch (...) {
    own(queue).captured = nullptr;
    throw;
  }
  own(queue).captured = nullptr;
  return std::make_unique<HostCaptured>(std::move(tasks));
}

}  // namespace trireme::hostgpu
