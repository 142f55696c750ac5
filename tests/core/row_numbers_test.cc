// Row numbers: a vector's behaviour, and places.
#include "core/row_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <span>

#include "tests/core/fake_gpus.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using trireme::testing::error_of;
using trireme::testing::FakeGpus;

TEST(RowNumbers, ActLikeAVector) {
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  RowNumbers rows;
  std::vector<int64_t> wanted;
  for (int i = 0; i < 2000; ++i) {
    switch (below(8)) {
      case 0:
      case 1:
        rows.push_back(i);
        wanted.push_back(i);
        break;
      case 2: {
        const size_t count = below(40);
        rows.resize(count);
        wanted.resize(count);
        break;
      }
      case 3: {
        const std::vector<int64_t> more(below(5), i);
        const auto at = static_cast<ptrdiff_t>(below(wanted.size() + 1));
        const auto put = rows.insert(rows.begin() + at, more.begin(), more.end());
        EXPECT_EQ(put - rows.begin(), at);
        wanted.insert(wanted.begin() + at, more.begin(), more.end());
        break;
      }
      case 4: {
        const std::vector<int64_t> others(below(30), -i);
        rows.assign(others.begin(), others.end());
        wanted = others;
        break;
      }
      case 5: {
        RowNumbers copy = rows;
        rows.clear();
        EXPECT_THAT(rows, IsEmpty());
        rows = below(2) ? copy : std::move(copy);
        break;
      }
      case 6:
        rows.reserve(below(60));
        break;
      default:
        if (!wanted.empty()) {
          const size_t at = below(wanted.size());
          rows[at] = wanted[at] = i;
          EXPECT_EQ(rows.back(), wanted.back());
          EXPECT_EQ(rows.front(), wanted.front());
        }
    }
    ASSERT_EQ(rows, wanted);
    ASSERT_EQ(rows.size(), wanted.size());
    ASSERT_EQ(rows.empty(), wanted.empty());
  }
}

TEST(RowNumbers, AreMadeFromLists) {
  EXPECT_THAT((RowNumbers{3, 1, 2}), ElementsAre(3, 1, 2));
  EXPECT_EQ((RowNumbers{9}).size(), 1u);
  EXPECT_EQ(RowNumbers(std::vector<int64_t>{4, 5}), (std::vector<int64_t>{4, 5}));
  const RowNumbers rows{1, 2};
  EXPECT_EQ(std::span<const int64_t>(rows).size(), 2u);
}

TEST(RowNumbers, CopiesAreDeepAndMovesLeaveNone) {
  RowNumbers rows{1, 2};
  RowNumbers copy = rows;
  copy[0] = 9;
  EXPECT_EQ(rows[0], 1);
  const RowNumbers moved = std::move(rows);
  EXPECT_TRUE(rows.empty());  // NOLINT: that it is, is the point
  EXPECT_THAT(moved, ElementsAre(1, 2));
}

TEST(RowNumbers, KeepMemoryThatSuffices) {
  RowNumbers rows{1, 2, 3, 4};
  const size_t before = allocation_count();
  const void* memory = rows.address();
  const RowNumbers fewer{7, 8};
  rows = fewer;
  rows.resize(4);
  EXPECT_THAT(rows, ElementsAre(7, 8, 0, 0));
  EXPECT_EQ(rows.address(), memory);
  EXPECT_EQ(allocation_count(), before + 1);  // those of `fewer`
}

using RowPlace = FakeGpus;

TEST_F(RowPlace, HostAccessElsewhereIsAnError) {
  const RowNumbers there = RowNumbers{3, 1}.to(cuda_place(1));
  EXPECT_EQ(there.place(), cuda_place(1));
  EXPECT_EQ(there.size(), 2u);
  const auto says = AllOf(HasSubstr("the row numbers of SelectedRows lie on gpu:1"),
                          HasSubstr("copy the SelectedRows to the host first"));
  EXPECT_THAT(error_of([&] { (void)there[0]; }), says);
  EXPECT_THAT(error_of([&] { (void)there.begin(); }), says);
  EXPECT_THAT(error_of([&] { (void)there.data(); }), says);
  EXPECT_THAT(error_of([&] { RowNumbers(there).push_back(1); }), says);
}

TEST_F(RowPlace, CopiesKeepAPlace) {
  const RowNumbers there = RowNumbers{3, 1}.to(cuda_place(1));
  RowNumbers copy;
  copy = there;
  EXPECT_EQ(copy.place(), cuda_place(1));
  EXPECT_THAT(copy.to(cpu_place()), ElementsAre(3, 1));
  copy.copy_from(RowNumbers{5, 6, 7});
  EXPECT_EQ(copy.place(), cuda_place(1));
  EXPECT_THAT(copy.to(cpu_place()), ElementsAre(5, 6, 7));
  copy.resize(40);
  EXPECT_EQ(copy.place(), cuda_place(1));
  copy = RowNumbers{4};
  EXPECT_THAT(copy, ElementsAre(4));
  copy.resize(2, cuda_place(0));
  EXPECT_EQ(copy.place(), cuda_place(0));
  copy.resize(0, cpu_place());
  EXPECT_EQ(copy.place(), cpu_place());
}

}  // namespace
}  // namespace trireme
