// Replaces operator new and delete of the whole test program by ones that count.
#include "tests/runtime/heap.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

namespace {

std::atomic<size_t> made_blocks{0}, freed_blocks{0};
thread_local bool in_library = false;

void* counted(void* memory) {
  if (memory && !in_library) made_blocks.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
void* aligned(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void* plain(size_t bytes) { return counted(std::malloc(bytes ? bytes : 1)); }
void give_back(void* memory) {
  if (memory && !in_library) freed_blocks.fetch_add(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// Stands before oneDNN's own, which it calls: the library makes its arguments anew at every call.
extern "C" int dnnl_primitive_execute(const void* primitive, void* stream, int count,
                                      const void* arguments) {
  using Execute = int (*)(const void*, void*, int, const void*);
  static const auto execute = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  in_library = true;
  const int status = execute(primitive, stream, count, arguments);
  in_library = false;
  return status;
}

void* operator new(size_t bytes) {
  if (void* made = plain(bytes)) return made;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (void* made = aligned(bytes, alignment)) return made;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return plain(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return aligned(bytes, alignment);
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { give_back(memory); }

// The forms for arrays would call these by themselves, but a sanitizer has its own.
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return operator new(bytes, alignment);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return plain(bytes); }
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return aligned(bytes, alignment);
}
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { give_back(memory); }

namespace trireme::testing {

size_t heap_calls() { return made_blocks.load(std::memory_order_relaxed); }
size_t live_heap_blocks() { return heap_calls() - freed_blocks.load(std::memory_order_relaxed); }

namespace {

TEST(Heap, EveryBlockIsCountedWhenMadeAndWhenFreed) {
  struct alignas(128) Wide {
    char bytes[128];
  };
  const size_t before = live_heap_blocks();
  auto one = std::make_unique<int>(3);
  auto many = std::make_unique<int[]>(5);
  auto wide = std::make_unique<Wide>();
  int* quiet = new (std::nothrow) int;
  EXPECT_EQ(live_heap_blocks(), before + 4);
  one.reset(), many.reset(), wide.reset();
  delete quiet;
  EXPECT_EQ(live_heap_blocks(), before);
}

}  // namespace

}  // namespace trireme::testing
