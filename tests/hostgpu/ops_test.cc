// Every op and its gradient on a device that is not the host: the CPU's bits.
#include "compile/pipeline.h"
#include "tests/hostgpu/hostgpu_places.h"
#include "tests/runtime/every_op.h"

namespace trireme::testing {
namespace {

// Results stay in the scope: nothing is fetched, so each stays where it was computed.
std::unique_ptr<Scope> scope_after(const OpProgram& built, const Place& place,
                                   const std::vector<std::string>& passes_off) {
  auto scope = std::make_unique<Scope>();
  for (const auto& [name, rows] : built.states) scope->var(name).rows() = rows;
  Executor executor(place);
  const RunOptions options{.scope = scope.get(),
                           .threads = 1,
                           .cut_bytes = 64,
                           .passes_off = passes_off,
                           .process_seed = 7};
  for (int i = 0; i < 2; ++i) executor.run(*built.program, built.feeds, {}, options);
  return scope;
}

class OnBoth {
 public:
  void compare(OpProgram& built) {
    for (const Op* op : built.program->global_block().ops()) {
      for (const std::string& name : op->output_names()) {
        if (name != kEmptyVar) built.program->global_block().var(name).set_persistable(true);
      }
    }
    for (const auto& off : {std::vector<std::string>{}, pass_names()}) {
      const auto cpu = scope_after(built, cpu_place(), off);
      const auto gpu = scope_after(built, hostgpu_place(), off);
      EXPECT_EQ(difference(*cpu, *gpu), "");
      ++runs_;
      for (const std::string& name : gpu->names()) {
        const Variable& variable = *gpu->find_local(name);
        const bool there =
            variable.kind() == Kind::dense
                ? !in_host_memory(variable.tensor().place())
                : variable.kind() == Kind::rows && !in_host_memory(variable.rows().value.place());
        results_on_device_ += there;
      }
    }
  }
  int runs() const { return runs_; }
  int results_on_device() const { return results_on_device_; }

 private:
  int runs_ = 0, results_on_device_ = 0;
};

TEST(HostGpuOps, GiveTheBitsOfTheCpu) {
  OnBoth both;
  const EveryOp all = for_every_op([&](OpProgram& built) { both.compare(built); });
  std::printf(
      "hostgpu: %zu ops (%zu of them run on the host), %d programs, %d results on the "
      "device, all with the CPU's bits\n",
      all.ops, all.on_host, both.runs(), both.results_on_device());
  EXPECT_GT(both.results_on_device(), both.runs() / 2);
}

}  // namespace
}  // namespace trireme::testing
