// A net that trains, and how far its states drift apart on one device and on several.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "runtime/feed_split.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {

struct Net {
  std::shared_ptr<Program> main = Program::create();
  std::shared_ptr<Program> startup = Program::create();
  std::string loss;
  std::vector<std::string> parameters;
  std::vector<std::string> states;  // parameters and what else outlives a step

  explicit Net(const std::function<Var&()>& build, double rate = 0.1) {
    ProgramGuard guard(main, startup);
    startup->set_seed(3);
    Var& value = build();
    loss = value.name();
    optimizer::Momentum(rate, 0.9).minimize(value);
    for (const Var* var : main->parameters()) parameters.push_back(var->name());
    for (const Var* var : main->global_block().vars()) {
      if (var->persistable()) states.push_back(var->name());
    }
  }
};

// Largest difference of any state after some steps on one device and on several.
inline double drift(Net& net, int devices, const std::vector<Feeds>& batches,
                    const Executor::ParallelOptions& options = {}) {
  std::vector<std::unique_ptr<Scope>> scopes;
  for (int run = 0; run < 2; ++run) {
    scopes.push_back(std::make_unique<Scope>());
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = scopes.back().get()});
    for (const Feeds& feeds : batches) {
      if (run == 0) {
        executor.run(*net.main, feeds, {net.loss}, {.scope = scopes.back().get()});
      } else {
        executor.run_parallel(*net.main, split_feeds(feeds, devices), {net.loss}, options,
                              {.scope = scopes.back().get()});
      }
    }
  }
  double worst = 0;
  for (const std::string& name : net.states) {
    worst = std::max(
        worst, max_abs_diff(scopes[0]->find(name)->tensor(), scopes[1]->find(name)->tensor()));
  }
  return worst;
}

}  // namespace trireme::testing
