// Buffers, tensors, selected rows and casts.
#include "core/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<DType> kAll = {DType::boolean, DType::int16,   DType::int32,   DType::int64,
                                 DType::float16, DType::float32, DType::float64, DType::uint8,
                                 DType::int8,    DType::bfloat16};

template <class T>
std::vector<T> values(const Tensor& tensor) {
  return std::vector<T>(tensor.data<T>(), tensor.data<T>() + tensor.numel());
}

std::string error_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind);
    return e.what();
  }
  return "no error";
}

TEST(Buffer, OfNoBytesIsStillABuffer) {
  const auto buffer = Buffer::allocate(0);
  ASSERT_NE(buffer, nullptr);
  EXPECT_NE(buffer->data(), nullptr);
  EXPECT_EQ(buffer->size(), 0u);
}

TEST(Buffer, IsAlignedTo64Bytes) {
  for (size_t bytes : {1, 65, 1000}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(Buffer::allocate(bytes)->data()) % 64, 0u);
  }
}

TEST(Buffer, TooLargeNamesTheSize) {
  EXPECT_THAT(
      error_of([] { Buffer::allocate((size_t{1} << 46) + 1); }, ErrorKind::resource_exhausted),
      HasSubstr("70368744177665 bytes (64 TiB)"));
}

TEST(Buffer, AdoptedMemoryIsReleasedByItsLastTensor) {
  std::vector<float> memory{1, 2, 3};
  int released = 0;
  const size_t before = allocated_bytes();
  {
    Tensor whole(DType::float32, {3}, Buffer::adopt(memory.data(), 12, [&] { ++released; }));
    const Tensor copy = whole;
    whole = Tensor();
    EXPECT_EQ(released, 0);
    EXPECT_EQ(copy.address(), memory.data());
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(allocated_bytes(), before);
}

TEST(Tensor, WithoutABufferHoldsNothing) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.initialized());
  EXPECT_EQ(tensor.address(), nullptr);
  EXPECT_TRUE(tensor.bytes().empty());
}

TEST(Tensor, CopySharesAndCloneDoesNot) {
  Tensor tensor = make_tensor<float>({2, 1}, {1, 2});
  tensor.set_lod({{0, 1, 2}});
  const Tensor shared = tensor;
  const Tensor deep = tensor.clone();
  tensor.data<float>()[0] = 9;
  EXPECT_EQ(shared.data<float>()[0], 9);
  EXPECT_EQ(deep.data<float>()[0], 1);
  EXPECT_EQ(deep.lod(), tensor.lod());
}

TEST(Tensor, CountsMemory) {
  const size_t bytes = allocated_bytes();
  const size_t count = allocation_count();
  {
    const Tensor tensor(DType::float64, {10, 10});
    EXPECT_EQ(allocated_bytes(), bytes + 800);
  }
  EXPECT_EQ(allocated_bytes(), bytes);
  EXPECT_EQ(allocation_count(), count + 1);
}

TEST(Tensor, HugeShapesAreRefusedBeforeAllocating) {
  const int64_t big = std::numeric_limits<int64_t>::max();
  const auto kind = ErrorKind::resource_exhausted;
  EXPECT_THAT(error_of([&] { Tensor(DType::float32, {big, big}); }, kind), HasSubstr("float32 ["));
  EXPECT_THAT(error_of([&] { Tensor().resize(DType::int8, {big}); }, kind), HasSubstr("64 TiB"));
}

TEST(Tensor, UnknownExtentCannotBeAllocated) {
  EXPECT_THAT(error_of(
                  [] {
                    Tensor(DType::float32, {-1, 3});
                  },
                  ErrorKind::invalid_argument),
              HasSubstr("[-1, 3]"));
}

TEST(Tensor, ResizeKeepsALargeEnoughBufferOfItsOwn) {
  Tensor tensor(DType::float32, {10});
  tensor.set_lod({{0, 10}});
  const void* memory = tensor.address();
  const size_t count = allocation_count();
  tensor.resize(DType::float64, {5});
  EXPECT_EQ(tensor.address(), memory);
  tensor.resize(DType::float32, {2, 5});
  EXPECT_EQ(tensor.address(), memory);
  EXPECT_EQ(allocation_count(), count);
  EXPECT_EQ(tensor.lod(), (Lod{{0, 10}}));
  tensor.resize(DType::float32, {11});
  EXPECT_EQ(allocation_count(), count + 1);
}

TEST(Tensor, ResizeLeavesASharedBufferAlone) {
  Tensor tensor = make_tensor<int32_t>({2}, {1, 2});
  const Tensor other = tensor;
  tensor.resize(DType::int32, {2});
  EXPECT_NE(tensor.address(), other.address());
  EXPECT_THAT(values<int32_t>(other), ElementsAre(1, 2));
}

TEST(Tensor, ReshapedSharesMemory) {
  Tensor tensor = make_tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  tensor.set_lod({{0, 2}});
  EXPECT_EQ(tensor.reshaped({3, 2}).address(), tensor.address());
  EXPECT_TRUE(tensor.reshaped({3, 2}).lod().empty());
  EXPECT_EQ(tensor.reshaped({2, 3, 1}).lod(), tensor.lod());
  EXPECT_THAT(error_of([&] { tensor.reshaped({4}); }, ErrorKind::invalid_argument),
              HasSubstr("holds 6 elements and cannot be seen as [4]"));
}

TEST(Tensor, SliceOfRowsSharesMemory) {
  Tensor tensor = make_tensor<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  tensor.set_lod({{0, 3}});
  const Tensor slice = tensor.slice_rows(1, 3).slice_rows(1, 2);
  EXPECT_EQ(slice.shape(), Shape({1, 2}));
  EXPECT_THAT(values<float>(slice), ElementsAre(5, 6));
  EXPECT_TRUE(slice.lod().empty());
  EXPECT_EQ(tensor.slice_rows(3, 3).numel(), 0);
  EXPECT_THAT(error_of([&] { tensor.slice_rows(1, 4); }, ErrorKind::out_of_range),
              HasSubstr("rows 1 to 4 are not inside the 3 rows"));
  EXPECT_THROW(tensor.slice_rows(2, 1), Error);
}

TEST(Tensor, CopyFromASliceOfItself) {
  Tensor tensor = make_tensor<int64_t>({4}, {1, 2, 3, 4});
  tensor.copy_from(tensor.slice_rows(2, 4));
  EXPECT_THAT(values<int64_t>(tensor), ElementsAre(3, 4));
}

TEST(Tensor, WrongElementTypeIsOurBug) {
  const Tensor tensor(DType::float32, {1});
  EXPECT_THROW(tensor.data<double>(), InternalError);
}

TEST(Tensor, DescribesTypeShapeAndLod) {
  Tensor tensor(DType::bfloat16, {5, 1});
  EXPECT_EQ(tensor.describe(), "bfloat16 [5, 1]");
  tensor.set_lod({{0, 2, 5}});
  EXPECT_EQ(tensor.describe(), "bfloat16 [5, 1] lod [[0, 2, 5]]");
}

TEST(MakeTensor, CountMustFit) {
  EXPECT_EQ(make_tensor<bool>({2}, {true, false}).dtype(), DType::boolean);
  EXPECT_THROW(make_tensor<float>({3}, {1, 2}), Error);
}

TEST(Filled, EveryTypeHoldsTheValue) {
  for (DType dtype : kAll) {
    const Tensor tensor = filled(dtype, {3}, 1);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(element_as_double(tensor, 2), 1) << name_of(dtype);
  }
}

TEST(Cast, SmallNumbersSurviveEveryPairOfTypes) {
  for (DType from : kAll) {
    for (DType to : kAll) {
      for (double value : {0.0, 1.0, 100.0}) {
        const double expected =
            from == DType::boolean || to == DType::boolean ? (value != 0 ? 1 : 0) : value;
        const Tensor result = cast(filled(from, {2}, value), to);
        EXPECT_EQ(result.dtype(), to);
        EXPECT_EQ(element_as_double(result, 1), expected) << name_of(from) << "->" << name_of(to);
      }
    }
  }
}

TEST(Cast, FloatsTruncateAndSaturate) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = make_tensor<float>({6}, {-1.7f, 300.9f, -inf, inf, std::nanf(""), 127.5f});
  EXPECT_THAT(values<int8_t>(cast(x, DType::int8)), ElementsAre(-1, 127, -128, 127, 0, 127));
  EXPECT_THAT(values<uint8_t>(cast(x, DType::uint8)), ElementsAre(0, 255, 0, 255, 0, 127));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(values<int64_t>(cast(x, DType::int64)),
              ElementsAre(-1, 300, -kMost - 1, kMost, 0, 127));
}

TEST(Cast, AnythingButZeroIsTrue) {
  const Tensor x = make_tensor<float>({4}, {0.0f, -0.0f, 0.25f, std::nanf("")});
  EXPECT_THAT(values<bool>(cast(x, DType::boolean)), ElementsAre(false, false, true, true));
}

TEST(Cast, DoublesRoundOnceToHalves) {
  // Just above a tie of the half type; rounding to float first would make it the tie.
  const Tensor x = make_tensor<double>({1}, {1 + 0x1p-11 + 0x1p-40});
  EXPECT_EQ(cast(x, DType::float16).data<float16>()->bits, 0x3c01);
  const Tensor y = make_tensor<double>({2}, {1 + 0x1p-8 + 0x1p-40, -1e300});
  EXPECT_EQ(cast(y, DType::bfloat16).data<bfloat16>()->bits, 0x3f81);
  EXPECT_EQ(element_as_double(cast(y, DType::bfloat16), 1),
            -std::numeric_limits<double>::infinity());
}

TEST(Cast, KeepsTheLod) {
  Tensor x = filled(DType::int32, {2}, 3);
  x.set_lod({{0, 2}});
  EXPECT_EQ(cast(x, DType::float32).lod(), x.lod());
}

TEST(MergeRows, AddsEqualRowsInAscendingOrder) {
  const SelectedRows merged =
      merge_rows({.rows = {7, 2, 7, 0},
                  .height = 10,
                  .value = make_tensor<float>({4, 2}, {1, 2, 3, 4, 10, 20, 5, 6})});
  EXPECT_THAT(merged.rows, ElementsAre(0, 2, 7));
  EXPECT_EQ(merged.height, 10);
  EXPECT_EQ(merged.value.shape(), Shape({3, 2}));
  EXPECT_THAT(values<float>(merged.value), ElementsAre(5, 6, 3, 4, 11, 22));
}

TEST(MergeRows, HalvesAreAddedInFloat) {
  // 2048 + 1 is 2048 in float16, so adding one by one would lose all of them.
  std::vector<float16> ones(9, float16(1.0f));
  ones[0] = float16(2048.0f);
  const SelectedRows merged = merge_rows({.rows = std::vector<int64_t>(9, 3),
                                          .height = 4,
                                          .value = make_tensor<float16>({9, 1}, ones)});
  EXPECT_EQ(element_as_double(merged.value, 0), 2056);
}

TEST(MergeRows, NoRowsStayNoRows) {
  const SelectedRows merged =
      merge_rows({.rows = {}, .height = 5, .value = Tensor(DType::float32, {0, 3})});
  EXPECT_TRUE(merged.rows.empty());
  EXPECT_EQ(merged.value.shape(), Shape({0, 3}));
}

TEST(MergeRows, ValueMustHaveOneRowPerNumber) {
  const SelectedRows wrong{.rows = {1, 2}, .height = 5, .value = make_tensor<float>({1, 1}, {1})};
  EXPECT_THAT(error_of([&] { merge_rows(wrong); }, ErrorKind::invalid_argument),
              HasSubstr("name 2 rows but their value is float32 [1, 1]"));
}

}  // namespace
}  // namespace trireme
