// Ranks of a job as threads of a test: each with a scope, whose rings are groups of one process.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local_group.h"
#include "comm/ring.h"
#include "core/text.h"
#include "ir/program.h"
#include "runtime/executor.h"

namespace trireme::testing {

struct Rank {
  explicit Rank(const Place& place) : executor(place) {}
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  Scope scope;
  Executor executor;
};
using Ranks = std::vector<std::unique_ptr<Rank>>;

inline Ranks make_ranks(int count, const Place& place = cpu_place()) {
  Ranks ranks;
  for (int r = 0; r < count; ++r) ranks.push_back(std::make_unique<Rank>(place));
  return ranks;
}

// What a startup program of several processes would have left in the scopes.
inline void meet(const Ranks& ranks, const std::string& ring) {
  std::vector<std::string> endpoints;
  for (size_t r = 0; r < ranks.size(); ++r) endpoints.push_back(cat("10.0.0.", r, ":1"));
  auto groups =
      make_local_group(static_cast<int>(ranks.size()), {.limit = std::chrono::seconds(20)});
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks[r]->scope.var(ring).set_host(std::make_shared<Ring>(std::move(groups[r]), endpoints));
  }
}

// All at once; what each ended with, empty where it went well.
template <class With>
std::vector<std::string> on_each(const Ranks& ranks, With with) {
  std::vector<std::string> ended(ranks.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        with(*ranks[r], static_cast<int>(r));
      } catch (const std::exception& error) {
        ended[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ended;
}

inline std::vector<std::string> all_went_well(const Ranks& ranks) {
  return std::vector<std::string>(ranks.size());
}

}  // namespace trireme::testing
