// Devices by place, the library of GPUs, and copies between places.
#include "core/device.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "core/cpu_device.h"
#include "core/flags.h"
#include "core/tensor.h"
#include "tests/core/fake_gpus.h"
#include "tests/support/op_runner.h"
#include "tests/support/temp_dir.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::FakeDevice;
using trireme::testing::FakeGpus;

TEST(CpuDevice, DoesItsWorkAtOnce) {
  Device& cpu = device_of(cpu_place());
  EXPECT_EQ(cpu.place(), cpu_place());
  const auto queue = cpu.make_queue(QueueKind::compute);
  const auto event = cpu.make_event();
  int from = 7, to = 0;
  cpu.copy(*queue, &to, &from, sizeof to);
  EXPECT_EQ(to, 7);
  cpu.record(*queue, *event);
  EXPECT_TRUE(cpu.done(*event));
  cpu.wait(*queue, *event);
  cpu.synchronize(*event);
  cpu.synchronize(*queue);
}

TEST(CpuDevice, CapturedWorkRunsAtReplayAlone) {
  Device& cpu = device_of(cpu_place());
  const auto queue = cpu.make_queue(QueueKind::compute);
  int runs = 0;
  const auto captured = cpu.capture(*queue, [&] { ++runs; });
  EXPECT_EQ(runs, 0);
  captured->replay(*queue);
  captured->replay(*queue);
  EXPECT_EQ(runs, 2);
}

TEST(CpuDevice, IsOne) {
  EXPECT_EQ(device_count(DeviceKind::cpu), 1);
  EXPECT_EQ(&device_of(cpu_place()), &device_of({DeviceKind::cpu, 3}));
}

// The library of a file, as FLAGS_gpu_library names it.
class GpuLibrary : public ::testing::Test {
 protected:
  void SetUp() override { close(); }
  void TearDown() override {
    close();
    set_flag("gpu_library", std::string());
    ::unsetenv("FAKE_DEVICES_PROBLEM");
  }
  void close() { use_device_library(std::nullopt); }
  static std::string fake_library() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libfake_devices.so";
  }
  static std::string error_with(const std::string& file) {
    set_flag("gpu_library", file);
    return error_of([] { device_of(cuda_place(0)); });
  }
};

TEST_F(GpuLibrary, AbsentOneNamesTheFileAndTheFlag) {
  EXPECT_THAT(error_with("/nowhere/gpu.so"),
              AllOf(HasSubstr("the GPU library /nowhere/gpu.so does not exist"),
                    HasSubstr("FLAGS_gpu_library names it"), HasSubstr("use CPUPlace")));
  EXPECT_THAT(error_of([] { device_count(DeviceKind::cuda); }), HasSubstr("/nowhere/gpu.so"));
}

TEST_F(GpuLibrary, NotInstalledMeansNoGpu) {
  Dl_info own{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&cpu_device), &own), 0);
  if (exists(std::filesystem::path(own.dli_fname).parent_path() / "libtrireme_cuda.so")) {
    GTEST_SKIP() << "this build has a GPU library";
  }
  EXPECT_EQ(device_count(DeviceKind::cuda), 0);
  EXPECT_THAT(error_of([] { Tensor(DType::float32, {1}, cuda_place(0)); }),
              AllOf(HasSubstr("libtrireme_cuda.so does not exist"),
                    HasSubstr("name its file with FLAGS_gpu_library")));
}

TEST_F(GpuLibrary, OtherFilesAreRefused) {
  const testing::TempDir dir;
  const std::string text = dir / "text.so";
  std::ofstream(text) << "no library";
  EXPECT_THAT(error_with(text),
              AllOf(HasSubstr(text + " cannot be loaded: "), HasSubstr("text.so")));
  Dl_info own{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&cpu_device), &own), 0);
  EXPECT_THAT(error_with(own.dli_fname),
              HasSubstr("is no GPU library of Trireme's, as it exports no trireme_open_devices"));
}

TEST_F(GpuLibrary, SaysWhyItHasNoDevice) {
  ::setenv("FAKE_DEVICES_PROBLEM", "the driver of fake devices is not installed", 1);
  EXPECT_THAT(error_with(fake_library()),
              HasSubstr("gpu:0 cannot be used: the driver of fake devices is not installed"));
  EXPECT_EQ(device_count(DeviceKind::cuda), 0);
  close();
  ::setenv("FAKE_DEVICES_PROBLEM", "", 1);
  EXPECT_THAT(error_with(fake_library()), HasSubstr("gpu:0 cannot be used: no GPU is visible"));
}

TEST_F(GpuLibrary, ServesItsDevices) {
  set_flag("gpu_library", fake_library());
  EXPECT_EQ(device_count(DeviceKind::cuda), 2);
  EXPECT_EQ(device_of(cuda_place(1)).place(), cuda_place(1));
  EXPECT_EQ(&device_of(cuda_place(1)), &device_of(cuda_place(1)));
  EXPECT_NE(&device_of(cuda_place(0)), &device_of(cuda_place(1)));
  const Tensor there = make_tensor<float>({2}, {1, 2}).to(cuda_place(1));
  EXPECT_EQ(there.to(cpu_place()).data<float>()[1], 2);
  EXPECT_NE(device_library_symbol("trireme_open_devices"), nullptr);
  EXPECT_EQ(device_library_symbol("nothing_of_this_name"), nullptr);
}

TEST_F(FakeGpus, NumbersBeyondTheVisibleOnesAreRefused) {
  EXPECT_THAT(error_of([] { device_of(cuda_place(2)); }),
              AllOf(HasSubstr("gpu:2 cannot be used: 2 GPUs are visible"),
                    HasSubstr("choose a number from 0 to 1")));
  EXPECT_THAT(error_of([] { device_of(cuda_place(-1)); }), HasSubstr("gpu:-1 cannot be used"));
  EXPECT_EQ(device_library_symbol("trireme_open_devices"), nullptr);  // not from a file
}

TEST_F(FakeGpus, PinnedMemoryIsTheGpus) {
  EXPECT_EQ(&device_of({DeviceKind::cuda_pinned, 1}), &gpus[1]);
}

std::vector<int> read(const Place& place, const void* memory, size_t count) {
  std::vector<int> numbers(count);
  copy_memory(cpu_place(), numbers.data(), place, memory, count * sizeof(int));
  return numbers;
}

TEST_F(FakeGpus, CopiesAreDoneOnReturn) {
  const std::vector<int> numbers{1, 2, 3};
  const auto a = Buffer::allocate(12, cuda_place(0)), b = Buffer::allocate(12, cuda_place(0));
  copy_memory(cuda_place(0), a->data(), cpu_place(), numbers.data(), 12);
  EXPECT_THAT(read(cuda_place(0), a->data(), 3), ElementsAre(1, 2, 3));
  copy_memory(cuda_place(0), b->data(), cuda_place(0), a->data(), 12);
  EXPECT_THAT(read(cuda_place(0), b->data(), 3), ElementsAre(1, 2, 3));
  EXPECT_EQ(gpus[0].copies, 4);
  std::vector<int> there(3);
  copy_memory(cpu_place(), there.data(), cpu_place(), numbers.data(), 12);
  EXPECT_EQ(there, numbers);
  EXPECT_EQ(gpus[0].copies, 4);
}

TEST_F(FakeGpus, CopiesBetweenDevicesGoThroughTheHost) {
  const size_t count = (size_t{40} << 20) / sizeof(int);  // three pieces
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto a = Buffer::allocate(count * sizeof(int), cuda_place(0));
  const auto b = Buffer::allocate(count * sizeof(int), cuda_place(1));
  copy_memory(cuda_place(0), a->data(), cpu_place(), numbers.data(), count * sizeof(int));
  copy_memory(cuda_place(1), b->data(), cuda_place(0), a->data(), count * sizeof(int));
  EXPECT_EQ(gpus[0].copies, 1 + 3);
  EXPECT_EQ(gpus[1].copies, 3);
  EXPECT_TRUE(read(cuda_place(1), b->data(), count) == numbers);
}

TEST_F(FakeGpus, PinnedAndHostMemoryNeedNoDevice) {
  const Place pinned{DeviceKind::cuda_pinned, 0};
  const auto buffer = Buffer::allocate(4, pinned);
  const int seven = 7;
  copy_memory(pinned, buffer->data(), cpu_place(), &seven, 4);
  EXPECT_THAT(read(pinned, buffer->data(), 1), ElementsAre(7));
  EXPECT_EQ(gpus[0].copies, 0);
}

TEST_F(FakeGpus, NoBytesMayComeFromNowhere) {
  copy_memory(cpu_place(), nullptr, cuda_place(0), nullptr, 0);
  EXPECT_EQ(gpus[0].copies, 0);
}

}  // namespace
}  // namespace trireme
