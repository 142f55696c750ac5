// Tensors and variables at other places than the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/flags.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "core/tensor_stream.h"
#include "tests/core/fake_gpus.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::FakeGpus;
using trireme::testing::floats;

std::vector<float> read(const Tensor& tensor) {
  const Tensor here = tensor.to(cpu_place());
  return {here.data<float>(), here.data<float>() + here.numel()};
}

using TensorPlace = FakeGpus;

TEST_F(TensorPlace, IsWhereTheMemoryLies) {
  EXPECT_EQ(Tensor().place(), cpu_place());
  EXPECT_EQ(Tensor(DType::float32, {2}).place(), cpu_place());
  const Tensor there(DType::float32, {2}, cuda_place(1));
  EXPECT_EQ(there.place(), cuda_place(1));
  EXPECT_TRUE(gpus[1].holds(there.address(), 8));
  EXPECT_EQ(there.slice_rows(1, 2).place(), cuda_place(1));
  EXPECT_EQ(there.describe(), "float32 [2] on gpu:1");
}

TEST_F(TensorPlace, HostAccessElsewhereIsAnError) {
  const Tensor there(DType::float32, {2, 3}, cuda_place(0));
  const auto says = AllOf(HasSubstr("a tensor of float32 [2, 3] lies on gpu:0"),
                          HasSubstr("to(cpu_place())"), HasSubstr("numpy.array(tensor)"));
  EXPECT_THAT(error_of([&] { there.data<float>(); }), says);
  EXPECT_THAT(error_of([&] { there.bytes(); }), says);
  EXPECT_THAT(error_of([&] { fill(there, 0, 0, 6); }), says);
  EXPECT_THAT(error_of([&] { element_as_double(there, 0); }), says);
  EXPECT_THAT(error_of([&] { cast(there, DType::float64); }), says);
  EXPECT_THROW(there.data<double>(), InternalError);
}

TEST_F(TensorPlace, CopiesGoThereAndBack) {
  Tensor here = floats({3, 1}, {1, 2, 3});
  here.set_lod({{0, 1, 3}});
  const Tensor there = here.to(cuda_place(0));
  EXPECT_EQ(there.lod(), here.lod());
  EXPECT_THAT(read(there), ElementsAre(1, 2, 3));
  EXPECT_THAT(read(there.slice_rows(1, 3)), ElementsAre(2, 3));
  const Tensor cloned = there.clone();
  EXPECT_EQ(cloned.place(), cuda_place(0));
  EXPECT_NE(cloned.address(), there.address());
  EXPECT_THAT(read(cloned), ElementsAre(1, 2, 3));
  EXPECT_EQ(Tensor().to(cuda_place(0)).initialized(), false);
}

TEST_F(TensorPlace, OnHostSharesWhatIsThere) {
  const Tensor here = floats({1}, {5});
  EXPECT_EQ(here.on_host().address(), here.address());
  const Tensor there = here.to(cuda_place(0));
  EXPECT_EQ(there.on_host().place(), cpu_place());
  EXPECT_THAT(read(there.on_host()), ElementsAre(5));
}

TEST_F(TensorPlace, ResizeStaysUnlessAPlaceIsGiven) {
  Tensor tensor(DType::float32, {4}, cuda_place(1));
  const void* memory = tensor.address();
  tensor.resize(DType::float32, {2});
  EXPECT_EQ(tensor.address(), memory);
  tensor.resize(DType::float64, {100});
  EXPECT_EQ(tensor.place(), cuda_place(1));
  tensor.resize(DType::float64, {100}, cpu_place());
  EXPECT_EQ(tensor.place(), cpu_place());
  EXPECT_EQ(gpus[1].in_use(), 0u);
}

TEST_F(TensorPlace, CopyFromStaysUnlessThereWasNoMemory) {
  const Tensor here = floats({2}, {1, 2});
  Tensor there(DType::float32, {1}, cuda_place(0));
  there.copy_from(here);
  EXPECT_EQ(there.place(), cuda_place(0));
  EXPECT_THAT(read(there), ElementsAre(1, 2));
  Tensor other = floats({2}, {0, 0});
  other.copy_from(there);
  EXPECT_EQ(other.place(), cpu_place());
  EXPECT_THAT(read(other), ElementsAre(1, 2));
  Tensor fresh;
  fresh.copy_from(there);
  EXPECT_EQ(fresh.place(), cuda_place(0));
}

TEST_F(TensorPlace, MemoryIsCountedWhereItIs) {
  const size_t host = allocated_bytes(), calls = allocation_count();
  {
    const Tensor there(DType::float32, {1000}, cuda_place(0));
    EXPECT_GE(gpus[0].in_use(), 4000u);
    EXPECT_EQ(allocated_bytes(), host);
    EXPECT_EQ(allocation_count(), calls + 1);
  }
  EXPECT_EQ(gpus[0].in_use(), 0u);
  EXPECT_EQ(allocated_bytes(), host);
}

TEST_F(TensorPlace, AFullDeviceSaysSo) {
  gpus[0].most = 1000;
  EXPECT_THAT(error_of([] { Tensor(DType::float32, {1000}, cuda_place(0)); }),
              HasSubstr("the fake device has no 4032 bytes; 0 of 1000 are in use"));
}

TEST_F(TensorPlace, PinnedMemoryIsTheHosts) {
  const Place pinned{DeviceKind::cuda_pinned, 0};
  const Tensor tensor = floats({2}, {1, 2}).to(pinned);
  EXPECT_EQ(tensor.data<float>()[1], 2);
  EXPECT_EQ(tensor.describe(), "float32 [2] on gpu_pinned");
  EXPECT_EQ(tensor.on_host().address(), tensor.address());
}

TEST_F(TensorPlace, NewMemoryIsNanWhereTheFlagAsksForIt) {
  set_flag("init_allocated_mem", true);
  const Tensor there(DType::float32, {2}, cuda_place(0));
  set_flag("init_allocated_mem", false);
  for (const float value : read(there)) EXPECT_TRUE(std::isnan(value));
}

TEST_F(TensorPlace, VariablesAreCopiedIntoTheMemoryTheyHave) {
  Variable here, there;
  here.tensor() = floats({2}, {1, 2});
  there.tensor() = floats({2}, {0, 0}).to(cuda_place(0));
  const void* memory = there.tensor().address();
  there.copy_from(here);
  EXPECT_EQ(there.tensor().address(), memory);
  EXPECT_THAT(read(there.tensor()), ElementsAre(1, 2));

  Variable sparse, copy;
  sparse.rows() = {.rows = {3, 1}, .height = 5, .value = floats({2, 1}, {7, 8}).to(cuda_place(1))};
  sparse.rows().rows = sparse.rows().rows.to(cuda_place(1));
  copy.copy_from(sparse);
  EXPECT_EQ(copy.rows().rows.place(), cuda_place(1));
  EXPECT_THAT(copy.rows().rows.to(cpu_place()), ElementsAre(3, 1));
  EXPECT_THAT(read(copy.rows().value), ElementsAre(7, 8));
}

TEST_F(TensorPlace, FilesDoNotTellPlaces) {
  Variable here, there, back;
  here.tensor() = floats({3}, {1, 2, 3});
  there.tensor() = here.tensor().to(cuda_place(0));
  StringSink of_here, of_there;
  write_variable(of_here, here, "here");
  write_variable(of_there, there, "there");
  EXPECT_EQ(of_here.text, of_there.text);

  const void* memory = there.tensor().address();
  StringSink other;
  write_tensor(other, floats({3}, {4, 5, 6}));
  ByteSource equal = ByteSource::memory(other.text, "test");
  read_variable(equal, there, Holds::tensor);
  EXPECT_EQ(there.tensor().address(), memory);
  EXPECT_THAT(read(there.tensor()), ElementsAre(4, 5, 6));

  StringSink longer;
  write_tensor(longer, floats({4}, {4, 5, 6, 7}));
  ByteSource more = ByteSource::memory(longer.text, "test");
  read_variable(more, there, Holds::tensor);
  EXPECT_EQ(there.tensor().place(), cuda_place(0));
  EXPECT_THAT(read(there.tensor()), ElementsAre(4, 5, 6, 7));
}

TEST_F(TensorPlace, FilesOfRowsDoNotTellPlaces) {
  const SelectedRows here{.rows = {3, 1}, .height = 5, .value = floats({2, 1}, {7, 8})};
  SelectedRows there = here;
  there.rows = here.rows.to(cuda_place(0));
  there.value = here.value.to(cuda_place(0));
  StringSink of_here, of_there;
  write_rows(of_here, here);
  write_rows(of_there, there);
  EXPECT_EQ(of_here.text, of_there.text);
}

}  // namespace
}  // namespace trireme
