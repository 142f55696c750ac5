// A step whose feeds keep their shapes asks for no memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"

namespace {
std::atomic<size_t> heap_calls{0};
}

// Of this whole test program: every way of asking for memory that C++ code has.
void* operator new(size_t bytes) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  if (void* made = std::malloc(bytes ? bytes : 1)) return made;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  const auto unit = static_cast<size_t>(alignment);
  if (void* made = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return made;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes ? bytes : 1);
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  const auto unit = static_cast<size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace trireme::testing {
namespace {

struct Steady {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  Scope scope;
  Executor exe;
  Feeds feeds{{"x", filled(DType::float32, {10, 1}, 0.5)}};
  RunOptions options{.scope = &scope, .threads = 1};
  std::string loss;

  template <class Minimize>
  explicit Steady(Minimize minimize) {
    const ProgramGuard guard(main, startup);
    Var& made = layers::mean(
        layers::square(layers::fc(layers::data("x", {1}), {.size = 10, .act = "relu"})));
    minimize(made);
    loss = made.name();
    exe.run(*startup, {}, {}, options);
  }
  size_t heap_calls_of_a_step(const std::vector<std::string>& fetches) {
    for (int i = 0; i < 3; ++i) exe.run(*main, feeds, fetches, options);
    const size_t before = heap_calls.load();
    exe.run(*main, feeds, fetches, options);
    return heap_calls.load() - before;
  }
};

TEST(SteadyStep, AsksForNoMemory) {
  Steady sgd([](Var& loss) { optimizer::Sgd(0.01).minimize(loss); });
  EXPECT_EQ(sgd.heap_calls_of_a_step({}), 0u);
  Steady adam([](Var& loss) { optimizer::Adam(0.01).minimize(loss); });
  EXPECT_EQ(adam.heap_calls_of_a_step({}), 0u);
}

// The list, the array, its buffer and its owner.
TEST(SteadyStep, AFetchCostsOnlyWhatTheCallerGets) {
  Steady sgd([](Var& loss) { optimizer::Sgd(0.01).minimize(loss); });
  EXPECT_LE(sgd.heap_calls_of_a_step({sgd.loss}), 4u);
}

}  // namespace
}  // namespace trireme::testing
