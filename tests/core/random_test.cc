// Philox against its published vectors, and the distributions drawn from it.
#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace trireme {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(Philox(0, 0).block(0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(Philox(ones, ones).block(ones),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x0370734413198a2e).block(0x85a308d3243f6a88),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, BitsAreTheWordsOfTheBlocks) {
  const Philox philox(7, 9);
  EXPECT_EQ(philox.bits(6), philox.block(1)[2]);
}

TEST(Philox, StreamsAndSeedsDiffer) {
  std::set<Block> blocks;
  for (uint64_t seed : {1, 2}) {
    for (uint64_t stream : {1, 2}) blocks.insert(Philox(seed, stream).block(0));
  }
  EXPECT_EQ(blocks.size(), 4u);
}

TEST(Philox, UniformFillsTheUnitInterval) {
  const Philox philox(42, stream_of("fc_0.w_0"));
  constexpr int kDraws = 100000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = philox.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  // Both deviate by less than 0.001 over so many draws; four times that.
  EXPECT_NEAR(sum / kDraws, 0.5, 0.004);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.004);
}

TEST(Philox, NormalHasMeanZeroAndDeviationOne) {
  const Philox philox(42, 3);
  constexpr int kDraws = 100000;
  double sum = 0;
  double squares = 0;
  double neighbours = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = philox.normal(i);
    sum += x;
    squares += x * x;
    neighbours += x * philox.normal(i ^ 1);
  }
  // Four deviations each: 1, sqrt(2) and, every pair being counted twice, sqrt(2) over sqrt(1e5).
  EXPECT_NEAR(sum / kDraws, 0, 0.013);
  EXPECT_NEAR(squares / kDraws, 1, 0.018);
  EXPECT_NEAR(neighbours / kDraws, 0, 0.018);  // a pair from one block is not correlated
}

TEST(Philox, TruncatedNormalStaysWithinTwo) {
  const Philox philox(42, 3);
  constexpr int kDraws = 100000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = philox.truncated_normal(i);
    ASSERT_LE(std::abs(x), 2.0);
    sum += x;
    squares += x * x;
  }
  // Four deviations each: 0.88 and, the fourth moment being 1.42, 0.91 over sqrt(1e5).
  EXPECT_NEAR(sum / kDraws, 0, 0.012);
  EXPECT_NEAR(squares / kDraws, 0.7737, 0.012);  // the variance of the distribution cut at two
}

TEST(Philox, AnElementNeedsNoEarlierElement) {
  EXPECT_EQ(Philox(5, 6).truncated_normal(1000), Philox(5, 6).truncated_normal(1000));
  EXPECT_EQ(Philox(5, 6).normal(1000), Philox(5, 6).normal(1000));
}

TEST(StreamOf, IsFnv1a) {
  EXPECT_EQ(stream_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(stream_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(stream_of("foobar"), 0x85944171f73967e8u);
}

TEST(FreshSeed, IsNeverZeroAndChanges) {
  const uint64_t first = fresh_seed();
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, fresh_seed());
}

}  // namespace
}  // namespace trireme
