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
    CompiledProgram compiled(main);
    compiled.with_data_parallel({.places = {cpu_place(), cpu_place()}});
    const RunOptions options{.scope = &scope, .threads = 2};
    return settles([&] { compiled.run(exe, feeds, {}, options); });
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
  work.run(2);
  const size_t lookups = name_lookups();
  const ExecutorCounters before = work.exe.counters();
  work.run(2);
  work.run(2);
  EXPECT_EQ(name_lookups(), lookups);
  EXPECT_EQ(work.exe.counters().binds, before.binds) << "shapes are inferred while binding";
  EXPECT_EQ(work.exe.counters().compiles, before.compiles);
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
