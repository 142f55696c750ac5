// Collectives among members of one process: any number of threads, the same bits.
#include "comm/local_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "core/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Collective::Kind;

// Runs one collective of all members on so many threads, each caring for every threads-th member.
template <class T>
std::vector<std::vector<T>> run(const std::vector<std::unique_ptr<Group>>& groups, Collective what,
                                const std::vector<std::vector<T>>& given, size_t result,
                                int threads) {
  std::vector<std::vector<T>> results(groups.size(), std::vector<T>(result));
  std::vector<std::unique_ptr<Ticket>> tickets;
  std::vector<Piece> pieces;
  for (size_t r = 0; r < groups.size(); ++r) {
    tickets.push_back(groups[r]->prepare(what));
    pieces.push_back({.in = given[r].data(),
                      .out = results[r].data(),
                      .count = static_cast<int64_t>(given[r].size())});
  }
  const auto care = [&](size_t first) {
    std::vector<bool> ended(groups.size(), false);
    for (size_t r = first; r < groups.size(); r += static_cast<size_t>(threads)) {
      tickets[r]->start({.pieces = {&pieces[r], 1}});
    }
    for (bool all = false; !all;) {
      all = true;
      for (size_t r = first; r < groups.size(); r += static_cast<size_t>(threads)) {
        if (!ended[r]) ended[r] = tickets[r]->done();
        all &= ended[r];
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(care, static_cast<size_t>(t));
  care(0);
  for (std::thread& other : others) other.join();
  return results;
}

std::vector<std::vector<float>> fractions(size_t members, size_t count) {
  std::vector<std::vector<float>> given(members, std::vector<float>(count));
  for (size_t r = 0; r < members; ++r) {
    for (size_t i = 0; i < count; ++i) {
      given[r][i] = 1.0f / static_cast<float>(3 + (i * 7 + r * 11) % 97);
    }
  }
  return given;
}

TEST(LocalGroup, SumsInTheOrderOfTheMembersOnAnyNumberOfThreads) {
  const auto given = fractions(4, 50'000);
  std::vector<float> expected(given[0].size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = ((given[0][i] + given[1][i]) + given[2][i]) + given[3][i];
  }
  for (int threads : {1, 2, 4}) {
    const auto groups = make_local_group(4);
    for (int step = 0; step < 3; ++step) {
      for (const auto& result : run(groups, {.tag = "g"}, given, expected.size(), threads)) {
        EXPECT_EQ(result, expected) << threads << " threads, step " << step;
      }
    }
  }
}

TEST(LocalGroup, ATreeSumsHalvesFirst) {
  const auto given = fractions(4, 1000);
  const auto results =
      run(make_local_group(4, {.tree = true}), {.tag = "g"}, given, given[0].size(), 2);
  for (size_t i = 0; i < given[0].size(); ++i) {
    EXPECT_EQ(results[3][i], (given[0][i] + given[1][i]) + (given[2][i] + given[3][i]));
  }
}

TEST(LocalGroup, OnlyTheRootTakesAReducedValue) {
  const std::vector<std::vector<int64_t>> given{{1, 2}, {10, 20}, {100, 200}};
  const auto results =
      run(make_local_group(3), {.kind = Kind::reduce, .dtype = DType::int64, .root = 1, .tag = "g"},
          given, 2, 1);
  EXPECT_THAT(results, ElementsAre(ElementsAre(0, 0), ElementsAre(111, 222), ElementsAre(0, 0)));
}

TEST(LocalGroup, TakesTheLargestSmallestAndProduct) {
  const std::vector<std::vector<int64_t>> given{{3, -2}, {-5, 7}};
  const auto of = [&](Collective::Op op) {
    return run(make_local_group(2), {.dtype = DType::int64, .op = op, .tag = "g"}, given, 2, 1)[1];
  };
  EXPECT_THAT(of(Collective::Op::max), ElementsAre(3, 7));
  EXPECT_THAT(of(Collective::Op::min), ElementsAre(-5, -2));
  EXPECT_THAT(of(Collective::Op::product), ElementsAre(-15, -14));
}

TEST(LocalGroup, GathersUnequalSharesInOrder) {
  const std::vector<std::vector<int64_t>> given{{1}, {}, {2, 3}};
  const Collective what{.kind = Kind::all_gather, .dtype = DType::int64, .tag = "g"};
  for (const auto& result : run(make_local_group(3), what, given, 3, 2)) {
    EXPECT_THAT(result, ElementsAre(1, 2, 3));
  }
}

TEST(LocalGroup, BroadcastsAndScattersSums) {
  const std::vector<std::vector<int64_t>> given{{1, 2}, {10, 20}};
  const auto sent =
      run(make_local_group(2),
          {.kind = Kind::broadcast, .dtype = DType::int64, .root = 1, .tag = "g"}, given, 2, 1);
  EXPECT_THAT(sent, ElementsAre(ElementsAre(10, 20), ElementsAre(10, 20)));
  const auto parts =
      run(make_local_group(2), {.kind = Kind::reduce_scatter, .dtype = DType::int64, .tag = "g"},
          given, 1, 1);
  EXPECT_THAT(parts, ElementsAre(ElementsAre(11), ElementsAre(22)));
}

TEST(LocalGroup, AMemberThatNeverComesIsNamed) {
  const auto groups = make_local_group(3);
  const Collective what{.tag = "fc_0.w_0@GRAD", .limit = std::chrono::milliseconds(1)};
  std::vector<std::unique_ptr<Ticket>> tickets;
  for (const auto& group : groups) tickets.push_back(group->prepare(what));
  float value = 1;
  const Piece piece{.in = &value, .out = &value, .count = 1};
  tickets[0]->start({.pieces = {&piece, 1}});
  tickets[2]->start({.pieces = {&piece, 1}});
  std::string said;
  for (int i = 0; i < 10'000 && said.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    try {
      tickets[0]->done();
    } catch (const Error& error) {
      said = error.what();
    }
  }
  EXPECT_THAT(said, HasSubstr("for members 1 at fc_0.w_0@GRAD (4 bytes); arrived: 0, 2"));
  EXPECT_THROW(tickets[2]->done(), Error);
}

TEST(LocalGroup, UnequalSharesOfASumAreAnErrorForAll) {
  const auto groups = make_local_group(2);
  const std::vector<std::vector<float>> given{{1, 2}, {1}};
  EXPECT_THROW(run(groups, {.tag = "g"}, given, 2, 1), Error);
}

TEST(LocalGroup, WhoGivesUpEndsTheOthers) {
  const auto groups = make_local_group(2);
  auto kept = groups[0]->prepare({.tag = "g"});
  auto dropped = groups[1]->prepare({.tag = "g"});
  float value = 1;
  const Piece piece{.in = &value, .out = &value, .count = 1};
  kept->start({.pieces = {&piece, 1}});
  EXPECT_FALSE(kept->done());
  groups[1]->abort("member 1 ran out of memory");
  EXPECT_THROW(kept->done(), Error);
}

}  // namespace
}  // namespace trireme
