// slice_variable, numpy's shuffle and the dispatchers.
#include "transpiler/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/random.h"
#include "tests/support/seed.h"
#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> sizes(const Shape& shape, int64_t servers, int64_t min_block = 8192) {
  std::vector<int64_t> sizes;
  for (const VarBlock& block : slice_variable({{"w", shape}}, servers, min_block)) {
    sizes.push_back(block.size);
  }
  return sizes;
}

TEST(SliceVariable, CutsAsTheWorkedExamples) {
  EXPECT_THAT(sizes({1000, 1000}, 2), ElementsAre(500000, 500000));
  EXPECT_THAT(sizes({1000, 1000}, 2, 1048576), ElementsAre(1000000));
  EXPECT_THAT(sizes({1000}, 2), ElementsAre(1000));
  EXPECT_THAT(sizes({7, 5000}, 4), ElementsAre(10000, 10000, 10000, 5000));
  EXPECT_THAT(sizes({3, 100, 100}, 8), ElementsAre(10000, 10000, 10000));
  EXPECT_THAT(sizes({1, 100000}, 4), ElementsAre(100000));
  EXPECT_THAT(sizes({1000, 64}, 7), ElementsAre(9152, 9152, 9152, 9152, 9152, 9152, 9088));
  EXPECT_THAT(sizes({20000}, 4), ElementsAre(10000, 10000));
  EXPECT_THAT(sizes({16383}, 2), ElementsAre(16383));
  EXPECT_THAT(sizes({16384}, 2), ElementsAre(8192, 8192));
  EXPECT_THAT(sizes({3, 3, 512, 512}, 4), ElementsAre(786432, 786432, 786432));
}

TEST(SliceVariable, ShapesAreThoseOfTheWorkedExamples) {
  const auto shapes = [](const Shape& shape, int64_t servers) {
    std::vector<Shape> list;
    for (const int64_t size : sizes(shape, servers)) list.push_back(slice_shape(size, shape));
    return list;
  };
  using Shapes = std::vector<Shape>;
  EXPECT_EQ(shapes({1000, 1000}, 2), Shapes(2, {500, 1000}));
  EXPECT_EQ(shapes({7, 5000}, 4), (Shapes{{2, 5000}, {2, 5000}, {2, 5000}, {1, 5000}}));
  EXPECT_EQ(shapes({3, 100, 100}, 8), Shapes(3, {1, 100, 100}));
  Shapes rows(6, {143, 64});
  rows.push_back({142, 64});
  EXPECT_EQ(shapes({1000, 64}, 7), rows);
  EXPECT_EQ(shapes({20000}, 4), Shapes(2, {10000}));
  EXPECT_EQ(shapes({3, 3, 512, 512}, 4), Shapes(3, {1, 3, 512, 512}));
}

TEST(SliceVariable, NamesBlocksAndRows) {
  const auto blocks = slice_variable({{"w", {7, 5000}}, {"b", {1000}}}, 4, 8192);
  EXPECT_EQ(blocks[3].to_string(), "w:3:5000");
  EXPECT_EQ(blocks[4].to_string(), "b:0:1000");
  EXPECT_EQ(slice_shape(5000, {7, 5000}), (Shape{1, 5000}));
  EXPECT_EQ(slice_shape(10000, {3, 100, 100}), (Shape{1, 100, 100}));
  EXPECT_EQ(slice_shape(10000, {20000}), (Shape{10000}));
}

TEST(SliceVariable, EveryElementIsInOneBlockOfWholeRows) {
  std::mt19937 draw(static_cast<uint32_t>(test_seed()));
  for (int i = 0; i < 2000; ++i) {
    Shape shape;
    const int rank = 1 + static_cast<int>(draw() % 4);
    for (int d = 0; d < rank; ++d) shape.push_back(static_cast<int64_t>(1 + draw() % 60));
    if (draw() % 2) shape[0] = static_cast<int64_t>(1 + draw() % 20000);
    const int64_t servers = 1 + draw() % 64, min_block = 1 + draw() % 9000;
    const std::vector<int64_t> cut = sizes(shape, servers, min_block);
    int64_t total = 0;
    for (const int64_t size : cut) {
      EXPECT_GT(size, 0);
      EXPECT_EQ(size % (rank > 1 ? shape.product(1, rank).value() : 1), 0);
      total += size;
    }
    EXPECT_EQ(total, shape.count());
    EXPECT_LE(static_cast<int64_t>(cut.size()), servers);
    for (size_t b = 1; b + 1 < cut.size(); ++b) EXPECT_EQ(cut[b], cut[0]);
  }
}

TEST(SliceVariable, BadArgumentsAreNamed) {
  EXPECT_THAT(error_of([] { slice_variable({{"w", {2}}}, 0); }), HasSubstr("slice_count is 0"));
  EXPECT_THAT(error_of([] {
                slice_variable({{"w", {2}}}, 1, 0);
              }),
              HasSubstr("min_block_size is 0"));
  EXPECT_THAT(error_of([] { slice_variable({{"w", {Dim(), 2}}}, 1); }), HasSubstr("w has shape"));
}

TEST(Shuffled, IsNumpysOrder) {
  EXPECT_THAT(shuffled(2, 0), ElementsAre(1, 0));
  EXPECT_THAT(shuffled(3, 0), ElementsAre(2, 1, 0));
  EXPECT_THAT(shuffled(4, 0), ElementsAre(2, 3, 1, 0));
  EXPECT_THAT(shuffled(5, 0), ElementsAre(2, 0, 1, 3, 4));
  EXPECT_THAT(shuffled(2, 1), ElementsAre(0, 1));
  EXPECT_THAT(shuffled(3, 1), ElementsAre(0, 2, 1));
  EXPECT_THAT(shuffled(4, 1), ElementsAre(3, 2, 0, 1));
  EXPECT_THAT(shuffled(5, 1), ElementsAre(2, 1, 4, 0, 3));
}

TEST(RoundRobin, GoesOnUntilReset) {
  RoundRobin dispatcher({"a:1", "b:1"});
  EXPECT_THAT(dispatcher.dispatch({{"fc_b", {}, {}}}), ElementsAre("a:1"));
  EXPECT_THAT(dispatcher.dispatch({{"fc_w.block0", {}, {}}, {"fc_w.block1", {}, {}}}),
              ElementsAre("b:1", "a:1"));
  dispatcher.reset();
  EXPECT_THAT(dispatcher.dispatch({{"x", {}, {}}}), ElementsAre("a:1"));
}

TEST(HashName, DependsOnTheNameAlone) {
  HashName dispatcher({"a:1", "b:1", "c:1"});
  const auto at = [](const char* name) {
    return std::string(1, static_cast<char>('a' + stream_of(name) % 3)) + ":1";
  };
  EXPECT_THAT(dispatcher.dispatch({{"fc_b", {}, {}}, {"fc_w.block0", {}, {}}}),
              ElementsAre(at("fc_b"), at("fc_w.block0")));
  EXPECT_THAT(dispatcher.dispatch({{"fc_w.block0", {}, {}}}), ElementsAre(at("fc_w.block0")));
  // 64-bit FNV-1a, in every process: 0x7554f1232d6fcf99 mod 3 is 0.
  EXPECT_THAT(
      dispatcher.dispatch({{"fc_b", {}, {}}, {"fc_w.block0", {}, {}}, {"fc_w.block1", {}, {}}}),
      ElementsAre("c:1", "a:1", "c:1"));
  EXPECT_THAT(error_of([] { HashName(Strings{}); }), HasSubstr("pserver_endpoints is empty"));
}

}  // namespace
}  // namespace trireme::testing
