// What makes a LoD valid, and the way between lengths and offsets.
#include "core/lod.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trireme {
namespace {

TEST(Lod, LengthsAndOffsetsGoBothWays) {
  const Lod lengths{{2, 1}, {3, 0, 4}};
  const Lod offsets{{0, 2, 3}, {0, 3, 3, 7}};
  EXPECT_EQ(lod_from_lengths(lengths), offsets);
  EXPECT_EQ(lengths_from_lod(offsets), lengths);
  EXPECT_EQ(lod_from_lengths({}), Lod{});
  EXPECT_EQ(to_string(offsets), "[[0, 2, 3], [0, 3, 3, 7]]");
}

TEST(Lod, NegativeLengthIsAnError) { EXPECT_THROW(lod_from_lengths({{2, -1}}), Error); }

TEST(Lod, ValidOnesHaveNoProblem) {
  EXPECT_EQ(lod_problem({}, 5), "");
  EXPECT_EQ(lod_problem({{0, 2, 5}}, 5), "");
  EXPECT_EQ(lod_problem({{0, 0, 5}}, 5), "");  // an empty sequence
  EXPECT_EQ(lod_problem({{0, 2, 3}, {0, 3, 3, 7}}, 7), "");
}

TEST(Lod, EveryLevelNeedsTwoOffsets) {
  EXPECT_EQ(lod_problem({{0}}, -1), "level 0 needs at least 2 offsets but has 1");
  EXPECT_EQ(lod_problem({{0, 1}, {}}, -1), "level 1 needs at least 2 offsets but has 0");
}

TEST(Lod, EveryLevelStartsAtZero) {
  EXPECT_EQ(lod_problem({{1, 5}}, 5), "level 0 starts at 1, not at 0");
}

TEST(Lod, OffsetsNeverFall) {
  EXPECT_EQ(lod_problem({{0, 3, 2, 5}}, 5), "level 0 falls from 3 to 2");
}

TEST(Lod, ALevelEndsAtTheNumberOfSequencesBelow) {
  EXPECT_EQ(lod_problem({{0, 2}, {0, 3, 4, 7}}, 7),
            "level 0 ends at 2 but level 1 has 3 sequences");
}

TEST(Lod, TheLastLevelEndsAtTheRows) {
  EXPECT_EQ(lod_problem({{0, 2, 5}}, 6), "the last level ends at 5 but the tensor has 6 rows");
}

TEST(Lod, RowsNotKnownYetAreNotChecked) {
  EXPECT_EQ(lod_problem({{0, 2, 5}}, -1), "");
  EXPECT_EQ(lod_problem({{0, 2, 5}}, 0), "");
}

}  // namespace
}  // namespace trireme
