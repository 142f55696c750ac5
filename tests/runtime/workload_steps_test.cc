// A steady step of every benchmark workload: no memory asked for, nothing looked up by name, no
// shape inferred, and an arena hardly larger than what lives at once.
#include <gtest/gtest.h>

#include <map>

#include "bench/workloads.h"
#include "core/lookups.h"
#include "ir/unique_name.h"
#include "layers/defaults.h"
#include "runtime/compiled_program.h"
#include "runtime/feed_split.h"
#include "tests/runtime/heap.h"

namespace trireme::testing {
namespace {

// Enough for the buffers that threads keep to have grown wherever parts of the work end up.
constexpr int kMostWarmSteps = 30;

struct SteadyWorkload {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  Scope scope;
  Executor exe;
  Feeds feeds;

  explicit SteadyWorkload(const std::string& name) {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    const bench::Workload work = bench::workload(name);
    work.build();
    // A few samples take the same way through the kernels as a whole batch.
    const std::map<std::string, int> shares{
        {"lstm", 2}, {"resnet50", 4}, {"transformer", 4}, {"vgg16", 8}};
    const auto found = shares.find(name);
    feeds = found == shares.end() ? work.feeds : split_feeds(work.feeds, found->second).front();
    exe.run(*startup, {}, {}, {.scope = &scope});
  }

  void run(int threads) { exe.run(*main, feeds, {}, {.scope = &scope, .threads = threads}); }

  PlanMemory prepare() {
    return exe.prepare(*main, {feeds}, {}, {}, {.scope = &scope, .threads = 1});
  }

  // Whether there come to be steps, two in a row, that ask for nothing.
  bool settles(int threads) {
    return settles([&] { run(threads); });
  }
  // One dict, which is shared out at every step.
  bool settles_on_two_places() {
    CompiledProgram compiled = on_places(2);
    return settles([&] { run(compiled); });
  }

  CompiledProgram on_places(size_t count) {
    CompiledProgram compiled(main);
    compiled.with_data_parallel({.places = std::vector<Place>(count, cpu_place())});
    return compiled;
  }
  void run(CompiledProgram& compiled) {
    compiled.run(exe, feeds, {}, {.scope = &scope, .threads = 2});
  }
  void run_alone(CompiledProgram& compiled) {
    compiled.run_alone(exe, feeds, {}, {.scope = &scope, .threads = 2});
  }

  template <class Step>
  void expect_nothing_looked_up(const std::string& how, Step step) {
    step();
    const size_t lookups = name_lookups();
    const ExecutorCounters before = exe.counters();
    for (int i = 0; i < 2; ++i) step();
    EXPECT_EQ(name_lookups(), lookups) << how;
    EXPECT_EQ(exe.counters().binds, before.binds) << how << ": shapes are inferred while binding";
    EXPECT_EQ(exe.counters().compiles, before.compiles) << how;
  }

 private:
  template <class Step>
  static bool settles(Step step) {
    int quiet = 0;
    for (int i = 0; i < kMostWarmSteps && quiet < 2; ++i) {
      const size_t before = heap_calls();
      step();
      quiet = heap_calls() == before ? quiet + 1 : 0;
    }
    return quiet == 2;
  }
};

class WorkloadSteps : public ::testing::TestWithParam<std::string> {};

TEST_P(WorkloadSteps, AskForNoMemory) {
  SteadyWorkload work(GetParam());
  EXPECT_TRUE(work.settles(1)) << "one thread";
  EXPECT_TRUE(work.settles(2)) << "two threads";
  EXPECT_TRUE(work.settles_on_two_places()) << "two places";
}

TEST_P(WorkloadSteps, LookNothingUpAndInferNothing) {
  SteadyWorkload work(GetParam());
  work.expect_nothing_looked_up("plain", [&] { work.run(2); });
  CompiledProgram compiled(work.main);
  work.expect_nothing_looked_up("compiled", [&] { work.run_alone(compiled); });
  CompiledProgram one = work.on_places(1);
  work.expect_nothing_looked_up("one place", [&] { work.run(one); });
  CompiledProgram two = work.on_places(2);
  work.expect_nothing_looked_up("two places", [&] { work.run(two); });
}

TEST_P(WorkloadSteps, LeaveTheScopesMemoryWhereItIs) {
  SteadyWorkload work(GetParam());
  work.run(1);
  const uint64_t before = work.scope.memory_epoch();
  for (int i = 0; i < 2; ++i) work.run(1);
  EXPECT_EQ(work.scope.memory_epoch(), before);
}

TEST_P(WorkloadSteps, NeedLittleMoreThanLivesAtOnce) {
  SteadyWorkload work(GetParam());
  work.run(1);
  const Executor::ArenaBytes arena = work.exe.arena(*work.main);
  EXPECT_GT(arena.live, 0u);
  EXPECT_LE(static_cast<double>(arena.held), 1.05 * static_cast<double>(arena.live));
}

TEST_P(WorkloadSteps, TellTheirMemoryBeforeTheyRun) {
  SteadyWorkload work(GetParam());
  const size_t before = allocated_bytes();
  const PlanMemory told = work.prepare();
  EXPECT_FALSE(told.partly);
  for (int i = 0; i < 2; ++i) work.run(1);
  EXPECT_EQ(allocated_bytes() - before, told.arena + told.scratch + told.own);
}

INSTANTIATE_TEST_SUITE_P(All, WorkloadSteps, ::testing::ValuesIn(bench::workload_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme::testing
