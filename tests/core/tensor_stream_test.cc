// The bytes of tensors in parameter files.
#include "core/tensor_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::floats;

std::string bytes_of(const Tensor& tensor) {
  StringSink sink;
  write_tensor(sink, tensor);
  return sink.text;
}

Tensor tensor_of(std::string_view bytes) {
  ByteSource source = ByteSource::memory(bytes, "test");
  return read_tensor(source);
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    text += "0123456789abcdef"[c & 15];
  }
  return text;
}

TEST(TensorStream, HasTheDocumentedFiftyBytes) {
  const std::string bytes = bytes_of(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(bytes.size(), 50u);
  EXPECT_EQ(hex(bytes.substr(0, 26)),
            "00000000"
            "0000000000000000"
            "00000000"
            "06000000"
            "080510021003");
}

TEST(TensorStream, RoundTripsEveryTypeAndLod) {
  for (const DType dtype :
       {DType::boolean, DType::int8, DType::uint8, DType::int16, DType::int32, DType::int64,
        DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    Tensor tensor = cast(floats({3, 2}, {0, 1, 1, 0, 1, 1}), dtype);
    tensor.set_lod({{0, 2}, {0, 1, 3}});
    const std::string bytes = bytes_of(tensor);
    const Tensor back = tensor_of(bytes);
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), tensor.shape());
    EXPECT_EQ(back.lod(), tensor.lod());
    EXPECT_EQ(bytes_of(back), bytes);
  }
}

TEST(TensorStream, EmptyAndScalarTensorsRoundTrip) {
  EXPECT_EQ(tensor_of(bytes_of(Tensor(DType::float32, {0, 4}))).shape(), Shape({0, 4}));
  EXPECT_EQ(tensor_of(bytes_of(filled(DType::float32, {}, 3))).shape(), Shape());
}

TEST(TensorStream, SelectedRowsRoundTrip) {
  SelectedRows rows{{4, 1, 4}, 6, floats({3, 2}, {1, 2, 3, 4, 5, 6})};
  StringSink sink;
  write_rows(sink, rows);
  ByteSource source = ByteSource::memory(sink.text, "test");
  const SelectedRows back = read_rows(source);
  EXPECT_TRUE(source.at_end());
  EXPECT_EQ(back.rows, rows.rows);
  EXPECT_EQ(back.height, 6);
  EXPECT_EQ(trireme::testing::max_abs_diff(back.value, rows.value), 0);
}

TEST(TensorStream, APartIsReadWithoutTheRest) {
  const std::string bytes = bytes_of(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  ByteSource source = ByteSource::memory(bytes, "test");
  EXPECT_EQ(trireme::testing::numbers(read_tensor_part(source, 2, {1, 3})),
            (std::vector<double>{3, 4, 5}));
  EXPECT_TRUE(source.at_end());
  EXPECT_THAT(error_of([&] {
                ByteSource again = ByteSource::memory(bytes, "test");
                read_tensor_part(again, 4, {3});
              }),
              HasSubstr("were asked for"));
}

TEST(TensorStream, EveryTruncationIsAnErrorThatSaysWhere) {
  Tensor tensor = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  tensor.set_lod({{0, 1, 2}});
  const std::string bytes = bytes_of(tensor);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string what = error_of([&] { tensor_of(std::string_view(bytes).substr(0, size)); });
    EXPECT_THAT(what, HasSubstr("of test")) << size;
  }
}

TEST(TensorStream, OtherVersionsAndHugeClaimsAreRefusedBeforeAllocating) {
  std::string bytes = bytes_of(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  std::string other = bytes;
  other[0] = 1;
  EXPECT_THAT(error_of([&] { tensor_of(other); }), HasSubstr("only 0 is known"));
  std::string levels = bytes;
  levels[10] = 1;  // 65536 LoD levels
  EXPECT_THAT(error_of([&] { tensor_of(levels); }), HasSubstr("LoD levels"));
  // float32 [2^62, 3] in the same place as [2, 3].
  std::string huge = bytes.substr(0, 16);
  const std::string desc("\x08\x05\x10\x80\x80\x80\x80\x80\x80\x80\x80\x40\x10\x03", 14);
  huge += std::string("\x0e\0\0\0", 4) + desc + bytes.substr(26);
  EXPECT_THAT(error_of([&] { tensor_of(huge); }), HasSubstr("needs more than"));
  std::string type = bytes;
  type[21] = 19;
  EXPECT_THAT(error_of([&] { tensor_of(type); }), HasSubstr("element type 19"));
}

TEST(TensorStream, AWrongLodIsRefused) {
  Tensor tensor = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  tensor.set_lod({{0, 5}});
  EXPECT_THAT(error_of([&] { tensor_of(bytes_of(tensor)); }), HasSubstr("LoD is wrong"));
}

}  // namespace
}  // namespace trireme
