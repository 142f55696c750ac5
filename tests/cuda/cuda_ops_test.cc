// Every op and its gradient on a GPU: the CPU's numbers, and twice the same bits.
#include <cstdlib>
#include <cstring>

#include "compile/pipeline.h"
#include "cuda/generated.h"
#include "ir/device_kernels.h"
#include "tests/cuda/cuda_places.h"
#include "tests/runtime/every_op.h"

namespace trireme::testing {
namespace {

std::unique_ptr<Scope> scope_of_run(const OpProgram& built, const Place& place,
                                    const std::vector<std::string>& passes_off) {
  auto scope = std::make_unique<Scope>();
  for (const auto& [name, rows] : built.states) scope->var(name).rows() = rows;
  Executor executor(place);
  const RunOptions options{
      .scope = scope.get(), .threads = 1, .passes_off = passes_off, .process_seed = 7};
  for (int i = 0; i < 2; ++i) executor.run(*built.program, built.feeds, {}, options);
  return scope;
}

TEST(CudaOps, GiveTheNumbersOfTheCpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU is visible";
  int programs = 0, on_device = 0;
  const EveryOp all = for_every_op([&](OpProgram& built) {
    for (const Op* op : built.program->global_block().ops()) {
      for (const std::string& name : op->output_names()) {
        if (name != kEmptyVar) built.program->global_block().var(name).set_persistable(true);
      }
    }
    for (const auto& off : {std::vector<std::string>{}, pass_names()}) {
      const auto cpu = scope_of_run(built, cpu_place(), off);
      const auto gpu = scope_of_run(built, cuda_place(0), off);
      const auto again = scope_of_run(built, cuda_place(0), off);
      EXPECT_EQ(disagreement(*cpu, *gpu, 2e-5), "");
      EXPECT_EQ(disagreement(*gpu, *again, 0), "") << "two runs differ";
      ++programs;
      for (const std::string& name : gpu->names()) {
        const Variable& variable = *gpu->find_local(name);
        on_device += variable.kind() == Kind::dense && variable.initialized() &&
                     !in_host_memory(variable.tensor().place());
      }
    }
  });
  size_t rows = 0, own = 0, host = 0;
  for (const OpSchema* row : op_table().rows()) {
    ++rows;
    host += row->trait().host;
    own += !kernels_for(*row, DeviceKind::cuda).empty();
  }
  std::printf(
      "cuda: %zu ops, %d programs, %d results on the device; of %zu rows %zu have kernels, "
      "%zu are the host's by nature, the others run there\n",
      all.ops, programs, on_device, rows, own, host);
  EXPECT_GT(on_device, programs / 2);
}

TEST(CudaText, EveryKernelCompilesForOtherCards) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU is visible, so no kernel was asked for";
  const std::vector<cuda::GeneratedText> all = cuda::all_generated_texts();
  if (all.empty()) GTEST_SKIP() << "no kernel was asked for";
  for (const char* architecture : {"sm_80", "sm_90"}) {
    EXPECT_GT(cuda::compile_texts(all, architecture).size(), 0u) << architecture;
  }
  std::printf("cuda: %zu generated kernels compile for sm_80 and sm_90\n", all.size());
}

}  // namespace
}  // namespace trireme::testing
