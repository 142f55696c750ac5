// Tells a scope's tree that memory of one of its variables was replaced.
#pragma once

#include <atomic>
#include <cstdint>

namespace trireme {

// Part of what holds memory. It belongs to the spot, not to the value: a copy elsewhere is not
// watched, and a value that is assigned, moved away or destroyed here counts. Where nobody watches
// it is one test of a pointer.
class MemoryWatch {
 public:
  MemoryWatch() = default;
  MemoryWatch(const MemoryWatch&) noexcept {}
  MemoryWatch(MemoryWatch&& other) noexcept { other.count(); }
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): there is nothing to copy
  MemoryWatch& operator=(const MemoryWatch&) noexcept {
    count();
    return *this;
  }
  MemoryWatch& operator=(MemoryWatch&& other) noexcept {
    other.count();
    count();
    return *this;
  }
  ~MemoryWatch() { count(); }

  void begin(std::atomic<uint64_t>* epoch) { epoch_ = epoch; }
  void count() const noexcept {
    if (epoch_) epoch_->fetch_add(1, std::memory_order_acq_rel);
  }
  std::atomic<uint64_t>* epoch() const { return epoch_; }

 private:
  std::atomic<uint64_t>* epoch_ = nullptr;
};

}  // namespace trireme
