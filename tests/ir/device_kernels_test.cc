// Kernels of a made-up device, added as a device's library adds them; where kernels run.
#include "ir/device_kernels.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "core/flags.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

Kernel named(std::string name) {
  return {std::move(name), untyped([](const KernelSite&) {
            BoundKernel made([](const KernelArgs&) {});
            made.runs = Runs::queue;
            return made;
          })};
}

std::string error_text(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(DeviceKernels, OfTheCpuStandInTheRow) {
  const OpSchema& row = op_table().get("p.add");
  EXPECT_EQ(&kernels_for(row, DeviceKind::cpu), &row.kernels());
  EXPECT_FALSE(row.kernels().empty());
  EXPECT_THAT(error_text([] { set_kernel_source(DeviceKind::cpu, [](DeviceKernels&) {}); }),
              HasSubstr("stand in the rows"));
}

TEST(DeviceKernels, AreTriedInTheOrderInWhichTheyWereAdded) {
  DeviceKernels kernels(DeviceKind::cuda);
  const OpSchema& add = op_table().get("p.add");
  kernels.add(add, named("fast"));
  kernels.add(add, named("plain"));
  ASSERT_EQ(kernels.of(add).size(), 2u);
  EXPECT_EQ(kernels.of(add)[0].name, "fast");
  EXPECT_EQ(kernels.of(add)[1].name, "plain");
  EXPECT_TRUE(kernels.of(op_table().get("p.mul")).empty());
}

// One story, because a kind has one source in a process.
TEST(DeviceKernels, ComeFromTheKindsSourceAtFirstUse) {
  const OpSchema& softmax = op_table().get("softmax_grad");
  set_flag("gpu_library", std::string("/nowhere/gpu.so"));
  EXPECT_THAT(error_text([&] { kernels_for(softmax, DeviceKind::cuda); }),
              HasSubstr("no GPU can be used"));
  set_flag("gpu_library", std::string());

  std::atomic<int> asked{0};
  bool broken = true;
  set_kernel_source(DeviceKind::cuda, [&](DeviceKernels& kernels) {
    ++asked;
    EXPECT_EQ(kernels.kind(), DeviceKind::cuda);
    kernels.add(softmax, named("made up"));
    kernels.facts.lanes = 32;
    if (broken) throw Error("the library is broken");
  });
  EXPECT_EQ(asked, 0);
  EXPECT_THAT(error_text([] { set_kernel_source(DeviceKind::cuda, [](DeviceKernels&) {}); }),
              HasSubstr("the kernels of gpu have a source already"));

  EXPECT_THAT(error_text([&] { kernels_for(softmax, DeviceKind::cuda); }),
              HasSubstr("the library is broken"));
  broken = false;

  std::vector<const std::vector<Kernel>*> found(8);
  std::vector<std::thread> threads;
  for (auto& mine : found) {
    threads.emplace_back([&] { mine = &kernels_for(softmax, DeviceKind::cuda); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(asked, 2);
  for (const auto* mine : found) EXPECT_EQ(mine, found[0]);
  ASSERT_EQ(found[0]->size(), 1u) << "what the broken source left is gone";
  EXPECT_EQ(found[0]->front().name, "made up");
  EXPECT_EQ(device_kernels(DeviceKind::cuda).facts.lanes, 32);
  EXPECT_TRUE(kernels_for(op_table().get("softmax"), DeviceKind::cuda).empty());
}

// ---- where they run

Registry table_of_two() {
  Registry ops;
  const KernelMake make = untyped([](const KernelSite&) { return [](const KernelArgs&) {}; });
  ops.op("near").out("Out", "anything").traits({.host = true}).kernel(make);
  ops.op("far").out("Out", "anything").kernel(make);
  ops.finish();
  return ops;
}

BoundKernel bound(const Registry& ops, const char* type) {
  const OpSchema& row = ops.get(type);
  const Attrs attrs;
  ValueInfo out;
  OpView view(row, attrs);
  view.add_out("Out", {&out});
  view.seal();
  std::string why_not;
  return row.kernels().front().make(view, &why_not).value();
}

TEST(Runs, HostOpsOnTheCallerAndOthersOnTheTeam) {
  const Registry ops = table_of_two();
  EXPECT_EQ(bound(ops, "near").runs, Runs::caller);
  EXPECT_EQ(bound(ops, "far").runs, Runs::team);
}

TEST(Runs, ADevicesKernelSaysItsQueue) {
  const Registry ops = table_of_two();
  const Attrs attrs;
  OpView view(ops.get("far"), attrs);
  view.seal();
  EXPECT_EQ(named("x").make(view, nullptr)->runs, Runs::queue);
  EXPECT_EQ(KernelArgs{}.queue, nullptr);
}

}  // namespace
}  // namespace trireme
