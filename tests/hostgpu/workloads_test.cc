// The workloads of the benchmarks on devices that are not the host: one, two and four of them train
// to the bits of as many CPU places.
#include <algorithm>
#include <cstdio>
#include <limits>

#include "bench/workloads.h"
#include "ir/unique_name.h"
#include "layers/defaults.h"
#include "runtime/compiled_program.h"
#include "runtime/feed_split.h"
#include "tests/hostgpu/hostgpu_places.h"

namespace trireme::testing {
namespace {

constexpr int64_t kFewestSamples = 4;  // one for every place
constexpr int kWorkloadSteps = 2;

// The front of a batch takes the same way through the kernels as all of it.
Feeds few_samples(const Feeds& feeds) {
  int64_t samples = std::numeric_limits<int64_t>::max();
  for (const auto& [name, tensor] : feeds) samples = std::min(samples, sample_count(tensor));
  const int shares = static_cast<int>(std::max<int64_t>(1, samples / kFewestSamples));
  return split_feeds(feeds, shares).front();
}

struct AfterSteps {
  std::unique_ptr<Scope> scope = std::make_unique<Scope>();
  std::vector<Tensor> losses;  // by step and device
};

AfterSteps trained_workload(const std::string& name, const std::vector<Place>& places) {
  AfterSteps after;
  auto main = Program::create(), startup = Program::create();
  main->set_seed(7);
  startup->set_seed(7);
  const UniqueNameGuard own_names;
  const ProgramGuard guard(main, startup);
  const bench::Workload work = bench::workload(name);
  const std::string loss = work.build().name();
  const Feeds feeds = few_samples(work.feeds);
  Executor exe(places.front());
  const RunOptions options{.scope = after.scope.get(), .threads = 2, .process_seed = 3};
  exe.run(*startup, {}, {}, options);
  CompiledProgram compiled(main);
  compiled.with_data_parallel({.loss_name = loss, .places = places});
  for (int step = 0; step < kWorkloadSteps; ++step) {
    for (const auto& result : compiled.run(exe, feeds, {loss}, options)) {
      for (const Variable& one : result.by_device) after.losses.push_back(one.tensor());
    }
  }
  return after;
}

class HostGpuWorkloads : public ::testing::TestWithParam<std::string> {};

TEST_P(HostGpuWorkloads, TrainToTheBitsOfAsManyCpuPlaces) {
  for (const int count : {1, 2, 4}) {
    SCOPED_TRACE(cat("on ", count));
    std::vector<Place> here(static_cast<size_t>(count)), there;
    for (int i = 0; i < count; ++i) there.push_back(hostgpu_place(i));
    const AfterSteps cpu = trained_workload(GetParam(), here);
    const AfterSteps gpu = trained_workload(GetParam(), there);
    EXPECT_EQ(difference(*cpu.scope, *gpu.scope), "");
    ASSERT_EQ(cpu.losses.size(), gpu.losses.size());
    for (size_t i = 0; i < cpu.losses.size(); ++i) {
      EXPECT_EQ(difference(cpu.losses[i], gpu.losses[i]), "") << "loss " << i;
    }
    size_t on_device = 0;
    for (const std::string& variable : gpu.scope->names()) {
      const Variable& held = *gpu.scope->find_local(variable);
      on_device += held.kind() == Kind::dense && held.initialized() &&
                   !in_host_memory(held.tensor().place());
    }
    EXPECT_GT(on_device, 0u);
    if (HasFailure()) continue;
    std::printf(
        "hostgpu: %s on %d: %zu variables (%zu on the device) and %zu losses, the CPU's bits\n",
        GetParam().c_str(), count, gpu.scope->names().size(), on_device, gpu.losses.size());
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostGpuWorkloads, ::testing::ValuesIn(bench::workload_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme::testing
