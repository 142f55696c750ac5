// Attention by rank: which blocks meet which rows, and what does not fit.
#include <gmock/gmock.h>

#include "tests/ops/small.h"
#include "tests/ops/wrong_use.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor whole(const Shape& shape, const std::vector<int64_t>& values) {
  return cast(longs(shape, values), DType::int32);
}

// Two ranks, rows of two columns: blocks (1, 1), (1, 2), (2, 1), (2, 2) of [2, 1].
OpCall ranked(std::vector<int64_t> offset) {
  const auto rows = static_cast<int64_t>(offset.size()) / 5;
  return {.type = "rank_attention",
          .inputs = {{"X", {doubles({3, 2}, {1, 2, 10, 20, 5, 5})}},
                     {"RankOffset", {whole({rows, 5}, offset)}},
                     {"RankParam", {doubles({8, 1}, {1, 0, 2, 1, 0, 3, 4, 4})}}},
          .attrs = {{"MaxRank", 2}}};
}

TEST(RankAttention, SumsOverNeighboursTheBlockOfBothRanks) {
  // Row 0, rank 1: itself at rank 1, 1; row 1 at rank 2, 2 * 10 + 20. Row 1, rank 2: row 0 at rank
  // 1, 3 * 2. Row 2 has no rank.
  const Tensors out = run_op(ranked({1, 1, 0, 2, 1, 2, 1, 0, 0, 9, 0, 1, 0, 2, 1}));
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(41, 6, 0));
  EXPECT_EQ(out.at("Out")[0].shape(), Shape({3, 1}));
}

TEST(RankAttention, ARowMayStandBesideSeveral) {
  const Tensors out = run_op(ranked({2, 2, 0, 2, 0, 2, 2, 0, 2, 1, 1, -1, 0, 1, 2}));
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(24, 132, 5));
}

TEST(RankAttention, RefusesRanksAndRowsThatAreNotThere) {
  EXPECT_THAT(error_of([] {
                run_op(ranked({3, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0}));
              }),
              HasSubstr("row 0 of RankOffset has rank 3 but MaxRank is 2"));
  EXPECT_THAT(error_of([] {
                run_op(ranked({1, 1, 0, 0, 0, 1, 1, 3, 0, 0, 1, 1, 0, 0, 0}));
              }),
              HasSubstr("row 1 of RankOffset names row 3 but X has 3 rows"));
}

TEST(WrongUse, RankAttentionNamesWhatDoesNotFit) {
  const Tensor flat = doubles({7}, {1, 2, 3, 4, 5, 6, 7});
  expect_refused({
      spoiled("rank_attention", {{"X", {flat}}}, {}, "X has shape [7] and RankOffset"),
      spoiled("rank_attention", {{"RankParam", {flat}}}, {}, "RankParam has shape [7] but X"),
      spoiled("rank_attention", {{"RankOffset", {flat}}}, {}, "RankOffset holds float64"),
      spoiled("rank_attention", {}, {{"MaxRank", 0}}, "attribute MaxRank is 0"),
  });
}

}  // namespace
}  // namespace trireme::testing
