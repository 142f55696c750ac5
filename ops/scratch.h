// A kernel's scratch, shared out among the arrays that it works in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace trireme {

// Arrays one after another, each from a cache line on; what they hold is undefined. Without memory
// it only counts: a kernel takes its arrays once when it is bound, to know BoundKernel::scratch,
// and then in every run.
class Scratch {
 public:
  explicit Scratch(std::byte* memory = nullptr) : memory_(memory) {}

  template <class T>
  T* take(int64_t count) {
    constexpr size_t kLine = 64;
    const size_t size = static_cast<size_t>(count) * sizeof(T);
    const size_t at = std::exchange(used_, used_ + (size + kLine - 1) / kLine * kLine);
    return memory_ ? reinterpret_cast<T*>(memory_ + at) : nullptr;
  }
  size_t bytes() const { return used_; }

 private:
  std::byte* memory_;
  size_t used_ = 0;
};

}  // namespace trireme
