// A device without a GPU: memory that the host cannot touch, and queues that run as late and in as
// strange an order as events allow. It takes the CPU's kernels, so its numbers are the CPU's.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "core/device.h"

namespace trireme::hostgpu {

class HostGpu;

// Counts recordings: a wait is for the one that was the last when it was put into its queue.
class HostEvent : public Event {
 public:
  uint64_t recorded = 0;  // put into a queue
  uint64_t reached = 0;   // come to
};

struct Task {
  std::function<void()> run;         // empty: a mark
  HostEvent* reaches = nullptr;      // when it is come to
  const HostEvent* waits = nullptr;  // may not be come to before the event is at `until`
  uint64_t until = 0;
};

class HostQueue : public Queue {
 public:
  explicit HostQueue(HostGpu& device);
  ~HostQueue() override;
  // Runs later. Kernels and copies come here.
  void put(std::function<void()> work);

  HostGpu& device;
  std::deque<Task> tasks;
  std::vector<Task>* captured = nullptr;  // while capturing: tasks go there
};

// One at a time: every call holds the device's lock.
class HostGpu : public Device {
 public:
  HostGpu(int id, size_t memory_bytes, uint64_t seed);
  ~HostGpu() override;

  Place place() const override { return cuda_place(id_); }
  std::string describe() const override;
  void* allocate(size_t bytes, MemoryKind kind) override;
  void release(void* memory, MemoryKind kind) noexcept override;
  std::unique_ptr<Queue> make_queue(QueueKind kind) override;
  std::unique_ptr<Event> make_event() override;
  void copy(Queue& queue, void* to, const void* from, size_t bytes) override;
  void record(Queue& queue, Event& event) override;
  void wait(Queue& queue, Event& event) override;
  bool done(const Event& event) override;
  void synchronize(const Event& event) override;
  void synchronize(Queue& queue) override;
  std::unique_ptr<Captured> capture(Queue& queue, const std::function<void()>& work) override;

  // Where kernels of this device, and nobody else, find its memory; other addresses stay.
  void* reach(const void* address) const;
  bool owns(const void* address) const;
  size_t bytes_in_use() const { return in_use_; }

 private:
  friend class HostQueue;
  bool run_one();  // of some queue that may go on; false: none may
  void run_until(const std::function<bool()>& reached);

  mutable std::recursive_mutex mutex_;
  int id_;
  size_t size_;
  std::byte* window_ = nullptr;    // the addresses that are given out: no access
  std::byte* memory_ = nullptr;    // the same pages
  std::map<size_t, size_t> free_;  // offset -> bytes
  std::map<size_t, size_t> used_;
  size_t in_use_ = 0;
  std::mt19937_64 random_;
  std::vector<HostQueue*> queues_;
};

}  // namespace trireme::hostgpu
