// Unique names: counters per key, prefixes, guards, threads.
#include "ir/unique_name.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace trireme {
namespace {

TEST(UniqueNames, CountPerKeyFromZero) {
  const UniqueNameGuard guard;
  EXPECT_EQ(unique_names().generate("fc"), "fc_0");
  EXPECT_EQ(unique_names().generate("fc"), "fc_1");
  EXPECT_EQ(unique_names().generate("mean"), "mean_0");
}

TEST(UniqueNames, GuardStartsAfreshAndGoesBack) {
  const UniqueNameGuard outer;
  EXPECT_EQ(unique_names().generate("fc"), "fc_0");
  {
    const UniqueNameGuard inner("A");
    EXPECT_EQ(unique_names().generate("fc"), "Afc_0");
  }
  EXPECT_EQ(unique_names().generate("fc"), "fc_1");
}

TEST(UniqueNames, SwapReturnsTheOldOne) {
  const UniqueNameGuard guard;
  unique_names().generate("x");
  std::shared_ptr<UniqueNames> old = swap_unique_names(nullptr);
  EXPECT_EQ(unique_names().generate("x"), "x_0");
  swap_unique_names(old);
  EXPECT_EQ(unique_names().generate("x"), "x_1");
}

TEST(UniqueNames, AreUniqueAcrossThreads) {
  const UniqueNameGuard guard;
  std::vector<std::vector<std::string>> made(4);
  std::vector<std::thread> threads;
  for (auto& names : made) {
    threads.emplace_back([&names] {
      for (int i = 0; i < 500; ++i) names.push_back(unique_names().generate("t"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& names : made) all.insert(names.begin(), names.end());
  EXPECT_EQ(all.size(), 2000u);
}

}  // namespace
}  // namespace trireme
