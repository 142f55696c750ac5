// Groups over sockets: each rank is a thread of the test, with its own endpoint, as a process has.
#include "comm/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "comm/joined_group.h"
#include "comm/local_group.h"
#include "comm/rank_mesh.h"
#include "comm/ring.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"
#include "tests/support/listener.h"

namespace trireme::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Collective::Kind;

std::vector<std::string> endpoints_of(int ranks) {
  std::vector<std::string> all;
  std::vector<std::unique_ptr<Listener>> held;  // until all are chosen: no port comes twice
  for (int r = 0; r < ranks; ++r) {
    held.push_back(std::make_unique<Listener>(Listener::Start::later));
    all.push_back(held.back()->endpoint());
  }
  return all;
}

ProcessGroupOptions options_of(const std::vector<std::string>& endpoints, int rank) {
  return {.who = {.endpoints = endpoints,
                  .rank = rank,
                  .purpose = "a test",
                  .limit = milliseconds(20000),
                  .poll = {}},
          .limit = milliseconds(10000)};
}

// Runs `with` as every rank at once; what each ended with, empty where it went well.
template <class With>
std::vector<std::string> as_ranks(int ranks, With with) {
  const std::vector<std::string> endpoints = endpoints_of(ranks);
  std::vector<std::string> ended(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        with(options_of(endpoints, r));
      } catch (const std::exception& error) {
        ended[static_cast<size_t>(r)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ended;
}

template <class T>
std::vector<T> exchanged(Group& group, const Collective& what, const std::vector<T>& given,
                         size_t results, std::vector<int64_t> counts = {}) {
  std::vector<T> out(results);
  const Piece piece{
      .in = given.data(), .out = out.data(), .count = static_cast<int64_t>(given.size())};
  run_collective(*group.prepare(what), {.pieces = {&piece, 1}, .counts = counts});
  return out;
}

const std::vector<std::string> kFour(4);

class ProcessGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto ended =
        as_ranks(1, [](const ProcessGroupOptions& options) { make_process_group(options); });
    if (ended[0].find("has no Gloo") != std::string::npos) GTEST_SKIP() << ended[0];
  }
  void TearDown() override {
    set_flag("job_token", std::string());
    set_flag("heartbeat_limit", int64_t{10});
  }
};

TEST_F(ProcessGroup, SumsOverFourRanksAndAllHaveTheSameBits) {
  std::vector<std::vector<float>> results(4);
  EXPECT_EQ(as_ranks(4,
                     [&](const ProcessGroupOptions& options) {
                       const auto group = make_process_group(options);
                       std::vector<float> given(10'007);
                       for (size_t i = 0; i < given.size(); ++i) {
                         given[i] = 1.0f / static_cast<float>(i + 3 + group->rank());
                       }
                       results[group->rank()] =
                           exchanged(*group, {.tag = "g"}, given, given.size());
                     }),
            kFour);
  EXPECT_NEAR(results[0][0], 1.0 / 3 + 1.0 / 4 + 1.0 / 5 + 1.0 / 6, 1e-6);
  for (int r = 1; r < 4; ++r) EXPECT_EQ(results[r], results[0]);
}

TEST_F(ProcessGroup, DoesEveryKindOfCollective) {
  EXPECT_EQ(
      as_ranks(
          3,
          [](const ProcessGroupOptions& options) {
            const auto group = make_process_group(options);
            const int64_t r = group->rank();
            const auto with = [&](Kind kind, std::vector<int64_t> given, size_t results,
                                  Collective::Op op = Collective::Op::sum,
                                  std::vector<int64_t> counts = {}) {
              return exchanged(*group,
                               {.kind = kind,
                                .dtype = DType::int64,
                                .op = op,
                                .root = kind == Kind::all_reduce ? 0 : 1,
                                .tag = cat("t", static_cast<int>(kind), static_cast<int>(op))},
                               given, results, counts);
            };
            using Op = Collective::Op;
            EXPECT_THAT(with(Kind::all_reduce, {r + 1}, 1, Op::product), ElementsAre(6));
            EXPECT_THAT(with(Kind::all_reduce, {r * r}, 1, Op::max), ElementsAre(4));
            EXPECT_THAT(with(Kind::all_reduce, {r - 5}, 1, Op::min), ElementsAre(-5));
            EXPECT_THAT(with(Kind::broadcast, {r * 10, r}, 2), ElementsAre(10, 1));
            const auto reduced = with(Kind::reduce, {r, 1}, 2);
            if (r == 1) {
              EXPECT_THAT(reduced, ElementsAre(3, 3));
            }
            // Rank r gives r elements.
            const std::vector<int64_t> own(static_cast<size_t>(r), r);
            EXPECT_THAT(with(Kind::all_gather, own, 3, Op::sum, {0, 1, 2}), ElementsAre(1, 2, 2));
            const auto gathered = with(Kind::gather, {r}, 3);
            if (r == 1) {
              EXPECT_THAT(gathered, ElementsAre(0, 1, 2));
            }
            EXPECT_THAT(with(Kind::reduce_scatter, {r, 10 * r, 100 * r}, 1),
                        ElementsAre(r == 0   ? 3
                                    : r == 1 ? 30
                                             : 300));
            with(Kind::barrier, {}, 0);
          }),
      std::vector<std::string>(3));
}

// Nodes of two, with ranks that give unequal shares and roots that are not the first of their node.
TEST_F(ProcessGroup, NodesDoEveryKindOfCollective) {
  EXPECT_EQ(
      as_ranks(
          4,
          [](ProcessGroupOptions options) {
            options.per_node = 2;
            const auto group = make_process_group(options);
            const int64_t r = group->rank();
            const auto with = [&](Kind kind, std::vector<int64_t> given, size_t results, int root,
                                  std::vector<int64_t> counts = {}) {
              return exchanged(*group,
                               {.kind = kind,
                                .dtype = DType::int64,
                                .root = root,
                                .tag = cat("t", static_cast<int>(kind), " ", root)},
                               given, results, counts);
            };
            for (const int root : {0, 1, 2, 3}) {
              EXPECT_THAT(with(Kind::broadcast, {r * 10, r}, 2, root),
                          ElementsAre(root * 10, root));
              const auto reduced = with(Kind::reduce, {r, 1}, 2, root);
              if (r == root) {
                EXPECT_THAT(reduced, ElementsAre(6, 4));
              }
            }
            EXPECT_THAT(with(Kind::all_reduce, {r + 1}, 1, 0), ElementsAre(10));
            const std::vector<int64_t> own(static_cast<size_t>(r), r);
            EXPECT_THAT(with(Kind::all_gather, own, 6, 0, {0, 1, 2, 3}),
                        ElementsAre(1, 2, 2, 3, 3, 3));
            EXPECT_THAT(with(Kind::reduce_scatter, {1, 2, 3, 4}, 1, 0), ElementsAre(4 * (r + 1)));
            with(Kind::barrier, {}, 0, 0);
          }),
      kFour);
}

TEST_F(ProcessGroup, SumsOfNodesAreThoseOfOneLevel) {
  std::vector<std::vector<float>> flat(4), nodes(4);
  for (const bool levels : {false, true}) {
    EXPECT_EQ(as_ranks(4,
                       [&](ProcessGroupOptions options) {
                         options.per_node = levels ? 2 : 0;
                         const auto group = make_process_group(options);
                         std::vector<float> given(10'007);
                         for (size_t i = 0; i < given.size(); ++i) {
                           given[i] = 1.0f / static_cast<float>(i + 3 + group->rank());
                         }
                         (levels ? nodes : flat)[group->rank()] =
                             exchanged(*group, {.tag = "g"}, given, given.size());
                       }),
              kFour);
  }
  for (int r = 1; r < 4; ++r) EXPECT_EQ(nodes[r], nodes[0]);
  for (size_t i = 0; i < flat[0].size(); ++i) EXPECT_NEAR(nodes[0][i], flat[0][i], 2e-7);
}

// Beats, tables and the end of a group larger than most.
TEST_F(ProcessGroup, ManyRanksMeetAndLeaveByOneThatCallsThemAllAtOnce) {
  constexpr int kRanks = 64;
  std::atomic<int> met{0};
  const auto ended = as_ranks(kRanks, [&](const ProcessGroupOptions& options) {
    Assembly all(options.who);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(all.exchange(std::to_string(options.who.rank)).back(), std::to_string(kRanks - 1));
    }
    all.watch();
    all.begin(1, "the last");
    all.end(1);
    ++met;
  });
  EXPECT_EQ(ended, std::vector<std::string>(kRanks));
  EXPECT_EQ(met, kRanks);
}

// Two processes with two replicas each are four members.
TEST_F(ProcessGroup, JoinsTheReplicasOfEveryProcess) {
  EXPECT_EQ(
      as_ranks(
          2,
          [](const ProcessGroupOptions& options) {
            const int process = options.who.rank;
            const auto groups = join_groups(make_local_group(2), make_process_group(options));
            const auto run = [&](Kind kind, const std::vector<std::vector<int64_t>>& given,
                                 size_t results, std::vector<int64_t> counts = {}) {
              std::vector<std::vector<int64_t>> out(2, std::vector<int64_t>(results));
              std::vector<std::unique_ptr<Ticket>> tickets;
              std::vector<Piece> pieces(2);
              for (size_t m = 0; m < 2; ++m) {
                tickets.push_back(groups[m]->prepare(
                    {.kind = kind, .dtype = DType::int64, .tag = cat(static_cast<int>(kind))}));
                pieces[m] = {.in = given[m].data(),
                             .out = out[m].data(),
                             .count = static_cast<int64_t>(given[m].size())};
              }
              for (size_t m = 0; m < 2; ++m) {
                tickets[m]->start({.pieces = {&pieces[m], 1}, .counts = counts});
              }
              for (bool a = false, b = false; !a || !b;) {
                a = a || tickets[0]->done();
                b = b || tickets[1]->done();
              }
              return out;
            };
            const int64_t first = 1 + 2 * process, second = 2 + 2 * process;
            EXPECT_EQ(groups[1]->size(), 4);
            EXPECT_EQ(groups[1]->rank(), 1);
            for (const auto& each : run(Kind::all_reduce, {{first}, {second}}, 1)) {
              EXPECT_THAT(each, ElementsAre(10));
            }
            EXPECT_THAT(run(Kind::reduce, {{first}, {second}}, 1)[0], ElementsAre(10));
            for (const auto& each : run(Kind::all_gather, {{first}, {second}}, 4)) {
              EXPECT_THAT(each, ElementsAre(1, 2, 3, 4));
            }
            // Members give 2, 0, 0 and 1 elements.
            const auto uneven = process == 0 ? run(Kind::gather, {{7, 8}, {}}, 3, {2, 0, 0, 1})
                                             : run(Kind::gather, {{}, {9}}, 3, {2, 0, 0, 1});
            EXPECT_THAT(uneven[0], ElementsAre(7, 8, 9));
            for (const auto& each : run(Kind::broadcast, {{first}, {second}}, 1)) {
              EXPECT_THAT(each, ElementsAre(1));
            }
          }),
      std::vector<std::string>(2));
}

// The limit is longer than what ranks tell of each other is old.
TEST_F(ProcessGroup, NamesWhoDidNotComeInTime) {
  std::atomic<int> waited{0};
  const auto ended = as_ranks(3, [&](const ProcessGroupOptions& options) {
    const auto group = make_process_group(options);
    exchanged<int64_t>(*group, {.dtype = DType::int64, .tag = "first"}, {1}, 1);
    if (group->rank() == 2) {
      while (waited < 2) std::this_thread::sleep_for(milliseconds(10));
      return;
    }
    try {
      exchanged<int64_t>(
          *group, {.dtype = DType::int64, .tag = "fc_0.w_0@GRAD", .limit = milliseconds(2500)},
          {1, 2}, 2);
    } catch (const Error& error) {
      ++waited;
      throw;
    }
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(ended[r],
                AllOf(HasSubstr("has waited 2500 ms at fc_0.w_0@GRAD (16 bytes) for ranks "
                                "2 (at first (8 bytes)); arrived: 0, 1")));
  }
}

TEST_F(ProcessGroup, EndsForAllWithTheReasonOfTheOneThatFails) {
  const auto ended = as_ranks(3, [](const ProcessGroupOptions& options) {
    const auto group = make_process_group(options);
    if (group->rank() == 1) group->abort("the disk of rank 1 is full");
    for (int i = 0; i < 100; ++i) {
      exchanged<int64_t>(*group, {.dtype = DType::int64, .tag = cat("t", i)}, {1}, 1);
    }
  });
  for (const std::string& each : ended) EXPECT_THAT(each, HasSubstr("the disk of rank 1 is full"));
}

// A write to what the other end has closed raises SIGPIPE where nobody keeps it away. Bytes that
// were not read make that end answer with a reset, after which every write does.
TEST_F(ProcessGroup, APeerThatHasGoneEndsNoProcess) {
  const auto ended = as_ranks(2, [](const ProcessGroupOptions& options) {
    Assembly assembly(options.who);
    const auto mesh = connect_gloo(assembly, {.ranks = {0, 1}, .name = "all"}, options.limit);
    mesh->barrier();
    mesh->cut();
    std::vector<float> sums(1 << 20);
    for (int i = 0; i < 3; ++i) {
      EXPECT_ANY_THROW(mesh->all_reduce(Collective::Op::sum, DType::float32, sums.data(), 1 << 20));
    }
    assembly.watch();
  });
  EXPECT_EQ(ended, std::vector<std::string>(2));
}

TEST_F(ProcessGroup, SaysWhoHasLeftBeforeTheOthers) {
  const auto ended = as_ranks(2, [](const ProcessGroupOptions& options) {
    const auto group = make_process_group(options);
    const int steps = group->rank() == 1 ? 2 : 3;
    for (int i = 0; i < steps; ++i) {
      exchanged<int64_t>(*group, {.dtype = DType::int64, .tag = cat("step ", i)}, {1}, 1);
    }
  });
  EXPECT_EQ(ended[1], "");
  EXPECT_THAT(ended[0], AllOf(HasSubstr("rank 1 has left"), HasSubstr("same number of steps")));
}

TEST_F(ProcessGroup, RefusesDifferentShapes) {
  const auto ended = as_ranks(2, [](const ProcessGroupOptions& options) {
    const auto group = make_process_group(options);
    const std::vector<int64_t> given(static_cast<size_t>(2 + group->rank()), 1);
    exchanged(*group, {.dtype = DType::int64, .tag = "w"}, given, given.size());
  });
  for (const std::string& each : ended) EXPECT_THAT(each, HasSubstr("exchanges something else"));
}

TEST_F(ProcessGroup, RefusesARankThatWasStartedForAnotherJob) {
  const std::vector<std::string> endpoints = endpoints_of(3);
  std::vector<std::string> ended(2);
  std::thread other([&] {
    // It believes in three ranks, the first one in two.
    try {
      make_process_group(options_of(endpoints, 1));
    } catch (const std::exception& error) {
      ended[1] = error.what();
    }
  });
  try {
    make_process_group(options_of({endpoints[0], endpoints[1]}, 0));
  } catch (const std::exception& error) {
    ended[0] = error.what();
  }
  other.join();
  for (const std::string& each : ended) {
    EXPECT_THAT(each, AllOf(HasSubstr("rank 1 was started for rank 1"), HasSubstr(endpoints[2])));
  }
}

TEST_F(ProcessGroup, SaysWhoNeverCame) {
  const std::vector<std::string> endpoints = endpoints_of(2);
  for (const int rank : {0, 1}) {
    ProcessGroupOptions options = options_of(endpoints, rank);
    options.who.limit = milliseconds(300);
    std::string what;
    try {
      make_process_group(options);
    } catch (const std::exception& error) {
      what = error.what();
    }
    EXPECT_THAT(what, HasSubstr(rank == 0 ? cat("these ranks have not come: 1 (", endpoints[1], ")")
                                          : "rank 0 has not called " + endpoints[1]));
  }
}

// Whoever only looks whether someone listens, or says something else, is passed by.
TEST_F(ProcessGroup, PassesByStrangers) {
  const std::vector<std::string> endpoints = endpoints_of(2);
  std::thread stranger([&] {
    for (int i = 0; i < 5; ++i) {
      Connection probe = connect_to(endpoints[1], milliseconds(100));
      if (probe.open() && i % 2) probe.send(0, "GET / HTTP/1.1");
      if (probe.open() && i % 3 == 0) probe.send(200, std::string(1000, 'x'));
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(200));
    const auto group = make_process_group(options_of(endpoints, 0));
    exchanged<int64_t>(*group, {.dtype = DType::int64, .tag = "t"}, {1}, 1);
  });
  const auto group = make_process_group(options_of(endpoints, 1));
  EXPECT_THAT(exchanged<int64_t>(*group, {.dtype = DType::int64, .tag = "t"}, {1}, 1),
              ElementsAre(2));
  other.join();
  stranger.join();
}

TEST(Frames, BoundWhatTheyTakeIn) {
  Listener chooses(Listener::Start::later);
  const std::string endpoint = chooses.endpoint();
  EXPECT_EQ(unpack_texts(pack_texts({"", "ab", "c"})), (std::vector<std::string>{"", "ab", "c"}));
  EXPECT_EQ(unpack_texts(std::string("\x05\0\0\0ab", 6)), std::nullopt);
  EXPECT_EQ(unpack_texts("abc"), std::nullopt);
  const std::vector<std::string> free = endpoints_of(1);
  Ear ear(free[0]);
  Connection caller = connect_to(free[0], milliseconds(1000));
  Connection called = ear.accept(milliseconds(1000));
  ASSERT_TRUE(called.open());
  const std::string head("\xff\xff\xff\x7f\x01", 5);  // it says that two gigabytes follow
  ASSERT_EQ(::send(caller.socket(), head.data(), head.size(), 0), 5);
  EXPECT_FALSE(called.receive(Connection::Clock::now() + milliseconds(1000)));
  EXPECT_FALSE(called.open());
}

}  // namespace
}  // namespace trireme::testing
