// The team runs every part once, in whatever order, and survives errors.
#include "cpu/team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>

namespace trireme {
namespace {

TEST(Team, RunsEveryPartOnce) {
  for (int threads : {1, 2, 3, 4}) {
    Team team(threads);
    for (int round = 0; round < 2000; ++round) {
      const int parts = round % 9;
      std::vector<std::atomic<int>> runs(static_cast<size_t>(parts));
      team.run(parts, [&](int part) { ++runs[static_cast<size_t>(part)]; });
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(Team, RunsMorePartsThanFitIntoAWord) {
  Team team(3);
  std::vector<std::atomic<int>> runs(70000);
  team.run(70000, [&](int part) { ++runs[static_cast<size_t>(part)]; });
  for (const auto& count : runs) ASSERT_EQ(count, 1);
}

TEST(Team, AMemberThatHadNoPartForLongGetsItsOwnAgain) {
  Team team(4);
  for (int round = 0; round < 500; ++round) team.run(2, [](int) {});
  std::vector<std::atomic<int>> runs(64);
  team.run(64, [&](int part) { ++runs[static_cast<size_t>(part)]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(Team, TheFirstErrorReachesTheCallerAndTheTeamGoesOn) {
  Team team(3);
  EXPECT_THROW(team.run(8,
                        [](int part) {
                          if (part == 5) throw std::runtime_error("part 5");
                        }),
               std::runtime_error);
  std::atomic<int> done = 0;
  team.run(8, [&](int) { ++done; });
  EXPECT_EQ(done, 8);
}

TEST(Team, WakesAfterASleep) {
  Team team(2);
  usleep(2000);  // longer than the workers spin
  std::atomic<int> done = 0;
  team.run(64, [&](int) { ++done; });
  EXPECT_EQ(done, 64);
}

TEST(TeamLease, ASecondRunWorksAlone) {
  TeamLease first(2);
  ASSERT_NE(first.team(), nullptr);
  TeamLease second(2);
  EXPECT_EQ(second.team(), nullptr);
}

TEST(TeamLease, OneThreadNeedsNoTeam) { EXPECT_EQ(TeamLease(1).team(), nullptr); }

TEST(TeamLease, AForkedChildStartsItsOwn) {
  {
    TeamLease lease(2);
    lease.team();
  }
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> done = 0;
    {
      TeamLease lease(2);
      if (!lease.team()) _exit(2);
      lease.team()->run(16, [&](int) { ++done; });
    }
    _exit(done == 16 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace trireme
