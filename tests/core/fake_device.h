// A device of plain memory whose queue does nothing before somebody waits for it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "core/buffer.h"
#include "core/device.h"
#include "core/error.h"
#include "core/text.h"

namespace trireme::testing {

using Work = std::function<void()>;

struct FakeQueue final : Queue {
  std::vector<Work> waiting;
};

struct FakeEvent final : Event {
  bool recorded = false, reached = false;
};

struct FakeCaptured final : Captured {
  explicit FakeCaptured(std::vector<Work> recorded) : work(std::move(recorded)) {}
  void replay(Queue& queue) override {
    auto& waiting = static_cast<FakeQueue&>(queue).waiting;
    waiting.insert(waiting.end(), work.begin(), work.end());
  }
  std::vector<Work> work;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(int id) : id_(id) {}
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  Place place() const override { return cuda_place(id_); }
  std::string describe() const override { return "a fake device"; }

  void* allocate(size_t bytes, MemoryKind kind) override {
    if (bytes > most - in_use()) {
      throw out_of_memory(
          cat("the fake device has no ", bytes, " bytes; ", in_use(), " of ", most, " are in use"));
    }
    void* memory = std::aligned_alloc(64, bytes);
    held_[static_cast<std::byte*>(memory)] = {bytes, kind};
    return memory;
  }
  void release(void* memory, MemoryKind kind) noexcept override {
    const auto found = held_.find(static_cast<std::byte*>(memory));
    if (found == held_.end() || found->second.kind != kind) std::abort();
    held_.erase(found);
    std::free(memory);
  }

  std::unique_ptr<Queue> make_queue(QueueKind) override { return std::make_unique<FakeQueue>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<FakeEvent>(); }
  void copy(Queue& queue, void* to, const void* from, size_t bytes) override {
    if (!holds(to, bytes) && !holds(from, bytes)) {
      throw InternalError("a device copies between two addresses that are not its own");
    }
    ++copies;
    put(queue, [=] { std::memcpy(to, from, bytes); });
  }
  void record(Queue& queue, Event& event) override {
    auto& mark = static_cast<FakeEvent&>(event);
    mark.recorded = true;
    mark.reached = false;
    put(queue, [&mark] { mark.reached = true; });
  }
  void wait(Queue&, Event&) override {}  // nothing runs by itself
  bool done(const Event& event) override {
    const auto& mark = static_cast<const FakeEvent&>(event);
    return !mark.recorded || mark.reached;
  }
  void synchronize(const Event& event) override {
    if (!done(event)) throw InternalError("nobody runs the queue of this event");
  }
  void synchronize(Queue& queue) override {
    for (const Work& work : std::exchange(static_cast<FakeQueue&>(queue).waiting, {})) work();
  }
  std::unique_ptr<Captured> capture(Queue& queue, const Work& work) override {
    auto& own = static_cast<FakeQueue&>(queue);
    std::vector<Work> before = std::exchange(own.waiting, {});
    work();
    return std::make_unique<FakeCaptured>(std::exchange(own.waiting, std::move(before)));
  }

  size_t in_use() const {
    size_t bytes = 0;
    for (const auto& [memory, block] : held_) bytes += block.bytes;
    return bytes;
  }
  bool holds(const void* address, size_t bytes) const {
    const auto* at = static_cast<const std::byte*>(address);
    auto next = held_.upper_bound(const_cast<std::byte*>(at));
    if (next == held_.begin()) return false;
    const auto& [memory, block] = *--next;
    return at + bytes <= memory + block.bytes;
  }

  size_t most = size_t{1} << 40;
  int copies = 0;

 private:
  struct Block {
    size_t bytes;
    MemoryKind kind;
  };
  void put(Queue& queue, Work work) {
    static_cast<FakeQueue&>(queue).waiting.push_back(std::move(work));
  }
  int id_;
  std::map<std::byte*, Block> held_;
};

}  // namespace trireme::testing
