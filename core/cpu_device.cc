// The host as a device: work is done when the call that asks for it returns.
#include "core/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "core/buffer.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr std::align_val_t kAlignment{64};

// Scattered reads of a large table, as an embedding's, miss the table of pages at every row where
// pages are small.
void ask_for_large_pages(std::byte* data, size_t bytes) {
  constexpr size_t kWorthIt = size_t{4} << 20;
  if (bytes < kWorthIt) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t skipped = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  // Where the system has none, pages stay as they are.
  (void)madvise(data + skipped, (bytes - skipped) / page * page, MADV_HUGEPAGE);
}

class KeptWork final : public Captured {
 public:
  explicit KeptWork(std::function<void()> work) : work_(std::move(work)) {}
  void replay(Queue&) override { work_(); }

 private:
  std::function<void()> work_;
};

class CpuDevice final : public Device {
 public:
  Place place() const override { return cpu_place(); }
  std::string describe() const override { return "CPU"; }

  void* allocate(size_t bytes, MemoryKind) override {
    void* memory = ::operator new(bytes, kAlignment, std::nothrow);
    if (!memory) {
      throw out_of_memory(cat("no memory left for a tensor of ", readable_size(bytes), "; ",
                              readable_size(allocated_bytes()), " are in use by tensors"));
    }
    ask_for_large_pages(static_cast<std::byte*>(memory), bytes);
    return memory;
  }
  void release(void* memory, MemoryKind) noexcept override {
    ::operator delete(memory, kAlignment);
  }

  std::unique_ptr<Queue> make_queue(QueueKind) override { return std::make_unique<Queue>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<Event>(); }
  void copy(Queue&, void* to, const void* from, size_t bytes) override {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }
  // Nothing is ever under way.
  void record(Queue&, Event&) override {}
  void wait(Queue&, Event&) override {}
  bool done(const Event&) override { return true; }
  void synchronize(const Event&) override {}
  void synchronize(Queue&) override {}
  std::unique_ptr<Captured> capture(Queue&, const std::function<void()>& work) override {
    return std::make_unique<KeptWork>(work);
  }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice& device = *new CpuDevice;  // tensors may live longer than static objects
  return device;
}

}  // namespace trireme
