// Damaged and hostile files: an error that says what is wrong, never a crash.
#include <gmock/gmock.h>

#include "ir/wire.h"
#include "tests/ir/raw_program.h"
#include "tests/ir/wire_bytes.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: this room's test helpers

std::string refusal(const std::string& bytes) {
  return error_of([&] { parse_program(bytes); });
}
std::string block(uint64_t idx, uint64_t parent, const std::string& parts = {}) {
  return msg(1, num(1, idx) + num(2, parent) + parts);
}
std::string op_using(uint64_t index) {
  return msg(4, text(3, "while") + msg(4, text(1, "sub_block") + num(2, 8) + num(12, index)));
}
std::string tensor_var(const std::string& name, const std::string& dims) {
  return msg(3, text(1, name) + msg(2, num(1, 7) + msg(3, msg(1, num(1, 5) + dims))));
}

TEST(WireBounds, BytesThatAreNoFieldsAreRefused) {
  EXPECT_THAT(refusal("hello, this is not a model"), HasSubstr("not a model file"));
  EXPECT_THAT(refusal(""), HasSubstr("there are no blocks"));
  EXPECT_THAT(refusal(std::string(20, '\xff')), HasSubstr("not a model file"));
  EXPECT_THAT(refusal(std::string("\x0a\x7f\x08", 3)),
              HasSubstr("says it has 127 bytes and only 1"));
  EXPECT_THAT(refusal(num(0, 1)), HasSubstr("a field has number 0"));
}

TEST(WireBounds, EveryTruncationIsRefusedOrStillAProgram) {
  const std::string bytes = serialize(*toy_training());
  int refused = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    try {
      parse_program(std::string_view(bytes).substr(0, size));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GE(refused, static_cast<int>(bytes.size()) - 3) << "only the version may be missing";
}

TEST(WireBounds, TooManyPartsAreRefusedBeforeTheyAreStored) {
  std::string bytes;
  for (size_t i = 0; i <= kMaxProgramParts; ++i) bytes += std::string("\x0a\x00", 2);
  EXPECT_THAT(refusal(bytes), HasSubstr("MemoryError: a program has more than"));
}

TEST(WireBounds, DeepUnknownGroupsAreRefused) {
  EXPECT_THAT(refusal(std::string(100000, '\x4b')), HasSubstr("not a model file"));
}

TEST(WireBounds, BlockNumbersMustBeConsistent) {
  EXPECT_THAT(refusal(block(1, ~0ull)), HasSubstr("block 1 of 1 blocks"));
  EXPECT_THAT(refusal(block(0, ~0ull) + block(0, 0)), HasSubstr("two blocks have number 0"));
  EXPECT_THAT(refusal(block(0, ~0ull) + block(1, 2)), HasSubstr("block 1 has parent 2 of 2"));
  EXPECT_THAT(refusal(block(0, ~1ull)), HasSubstr("has parent -2"));
  EXPECT_THAT(refusal(block(0, 0)), HasSubstr("parents of blocks go round in a circle"));
  EXPECT_THAT(refusal(block(0, ~0ull) + block(1, 2) + block(2, 1)), HasSubstr("circle"));
  EXPECT_THAT(refusal(block(0, ~0ull, num(5, 9))), HasSubstr("has forward block 9"));
}

TEST(WireBounds, SubBlocksMustExistAndNotGoRound) {
  EXPECT_THAT(refusal(block(0, ~0ull, op_using(3))),
              HasSubstr("attribute sub_block of op while in block 0 is block 3 of 1 blocks"));
  EXPECT_THAT(refusal(block(0, ~0ull, op_using(~0ull))), HasSubstr("is block -1"));
  EXPECT_THAT(refusal(block(0, ~0ull, op_using(0))), HasSubstr("sub-blocks go round in a circle"));
  EXPECT_THAT(refusal(block(0, ~0ull, op_using(1)) + block(1, 0, op_using(0))),
              HasSubstr("sub-blocks go round in a circle"));
}

TEST(WireBounds, NestingIsBounded) {
  std::string bytes = block(0, ~0ull);
  for (uint64_t i = 1; i < 1000; ++i) bytes += block(i, i - 1);
  EXPECT_THAT(refusal(bytes), HasSubstr("nest more than 256 deep"));
}

TEST(WireBounds, NamesMustBeThereAndDiffer) {
  EXPECT_THAT(refusal(block_with(tensor_var("", ""))), HasSubstr("has no name"));
  EXPECT_THAT(refusal(block_with(tensor_var("x", "") + tensor_var("x", ""))),
              HasSubstr("block 0 has two variables x"));
  EXPECT_THAT(refusal(block_with(msg(4, ""))), HasSubstr("op 0 of block 0 has no type"));
  const std::string slot = msg(1, text(1, "X"));
  EXPECT_THAT(refusal(block_with(msg(4, text(3, "t") + slot + slot))),
              HasSubstr("op t has slot X twice"));
  const auto attr = [](int value) { return msg(4, text(1, "a") + num(2, 0) + num(3, value)); };
  EXPECT_THAT(refusal(block_with(msg(4, text(3, "t") + attr(1) + attr(2)))),
              HasSubstr("op t has attribute a twice, with two values"));
  // PaddlePaddle 2.6.2 writes some attributes twice.
  const auto program = parse_program(block_with(msg(4, text(3, "t") + attr(1) + attr(1))));
  EXPECT_EQ(program->block(0).op(0).attr<int32_t>("a"), 1);
  EXPECT_THAT(refusal(block_with(msg(4, text(3, "t") + msg(4, text(1, "a"))))),
              HasSubstr("attribute a of op t has no type"));
}

// The original multiplies unknown sizes as if they were numbers, and writes what comes out.
TEST(WireBounds, ProductsOfUnknownSizesAreUnknown) {
  const auto program = parse_program(block_with(tensor_var("x", num(2, ~4ull) + num(2, 3))));
  EXPECT_EQ(program->block(0).var("x").shape(), (Shape{Dim(), 3}));
}

TEST(WireBounds, ShapesAndTypesMustBeOnes) {
  std::string ten_dims;
  for (int i = 0; i < 10; ++i) ten_dims += num(2, 1);
  EXPECT_THAT(refusal(block_with(tensor_var("x", ten_dims))), HasSubstr("x has 10 dimensions"));
  EXPECT_THAT(refusal(block_with(msg(3, text(1, "x") + msg(2, num(1, 5))))),
              HasSubstr("type FP32, which is an element type"));
  EXPECT_THAT(refusal(block_with(msg(3, text(1, "x") + msg(2, num(1, 99))))),
              HasSubstr("a type that this version does not know"));
  EXPECT_THAT(refusal(block_with(msg(3, text(1, "x")))), HasSubstr("variable x has no type"));
  EXPECT_THAT(
      refusal(block_with(msg(3, text(1, "x") + msg(2, num(1, 7) + msg(3, msg(1, num(1, 23))))))),
      HasSubstr(
          "NotImplementedError: the model file cannot be read: variable x has elements of type "
          "COMPLEX64"));
  EXPECT_THAT(refusal(block_with(msg(3, text(1, "x") + msg(2, num(1, 7) + msg(3, num(2, ~0ull)))))),
              HasSubstr("lod_level -1"));
}

}  // namespace
}  // namespace trireme
