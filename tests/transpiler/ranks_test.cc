// Collective modes in numbers: ranks in one process, between which this file reduces and
// broadcasts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transpiler/training.h"

namespace trireme::testing {
namespace {

struct Rank {
  std::shared_ptr<Program> main, startup;
  Scope scope;
  PartRunner runner;
};

using Ranks = std::vector<std::unique_ptr<Rank>>;

bool makes_communicators(const Op& op) {
  return op.type().starts_with("c_gen_nccl_id") || op.type().starts_with("c_comm_init");
}

void sum_over(const Ranks& ranks, const std::string& name) {
  Tensor sum = ranks.front()->scope.find(name)->tensor().clone();
  for (size_t r = 1; r < ranks.size(); ++r) {
    const float* more = std::as_const(*ranks[r]->scope.find(name)).tensor().data<float>();
    for (int64_t i = 0; i < sum.numel(); ++i) sum.data<float>()[i] += more[i];
  }
  for (const auto& rank : ranks) rank->scope.var(name).tensor() = sum.clone();
}

void broadcast(const Ranks& ranks, const std::string& name) {
  for (size_t r = 1; r < ranks.size(); ++r) {
    ranks[r]->scope.var(name).tensor() = ranks.front()->scope.find(name)->tensor().clone();
  }
}

// All ranks have the same ops, so they go from one exchange to the next together.
void run_together(Ranks& ranks, std::shared_ptr<Program> Rank::*which,
                  const std::vector<Feeds>& feeds) {
  std::vector<OpSpec> part;
  int number = 0;
  const auto run_part = [&] {
    for (size_t r = 0; r < ranks.size(); ++r) {
      const Program& program = *((*ranks[r]).*which);
      ranks[r]->runner.run(program, cat(which == &Rank::main, number), part,
                           feeds.empty() ? Feeds() : feeds[r], ranks[r]->scope);
    }
    ++number;
    part.clear();
  };
  for (const Op* op : ((*ranks.front()).*which)->global_block().ops()) {
    const bool sums = op->type() == "c_allreduce_sum", sends = op->type() == "c_broadcast";
    if (makes_communicators(*op)) continue;
    if (!sums && !sends) {
      part.push_back(op->spec());
      continue;
    }
    run_part();
    (sums ? sum_over : broadcast)(ranks, op->input("X").front());
  }
  run_part();
}

Trained train_ranks(const Case& with, const char* how, int count, int rings) {
  Ranks ranks;
  std::string loss;
  Strings endpoints;
  for (int r = 0; r < count; ++r) endpoints.push_back(cat("10.0.0.", r, ":1"));
  for (int r = 0; r < count; ++r) {
    FreshPrograms fresh;
    loss = build_case(with);
    DistributeTranspilerConfig config;
    config.mode = "collective";
    config.collective_mode = how;
    config.nccl_comm_num = rings;
    config.wait_port = false;
    DistributeTranspiler(config).transpile({.trainer_id = r,
                                            .program = fresh.main,
                                            .startup_program = fresh.startup,
                                            .trainers = endpoints,
                                            .current_endpoint = endpoints[static_cast<size_t>(r)]});
    ranks.push_back(std::make_unique<Rank>());
    ranks.back()->main = fresh.main;
    ranks.back()->startup = fresh.startup;
  }
  run_together(ranks, &Rank::startup, {});
  Trained trained;
  const int64_t share = with.batch / count;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Feeds> feeds;
    for (int r = 0; r < count; ++r) {
      const int64_t begin = step * with.batch + r * share;
      feeds.push_back(with.feed(begin, begin + share));
    }
    run_together(ranks, &Rank::main, feeds);
    float sum = 0;
    for (const auto& rank : ranks) sum += *rank->scope.find(loss)->tensor().data<float>();
    trained.losses.push_back(sum / static_cast<float>(count));
  }
  for (const Var* param : ranks.front()->main->parameters()) {
    trained.params[param->name()] = ranks.front()->scope.find(param->name())->tensor().clone();
  }
  return trained;
}

std::vector<Case> cases() {
  return {dense("sgd", sgd), dense("momentum, clip by global norm, weight decay", [](Var& loss) {
            optimizer::Momentum(layers::exponential_decay(0.05, 2, 0.5, true), 0.9, false,
                                {.regularization = std::make_shared<L2Decay>(0.01),
                                 .grad_clip = std::make_shared<GradientClipByGlobalNorm>(0.05)})
                .minimize(loss);
          })};
}

TEST(Ranks, GradAllreduceGivesTheNumbersOfOneMachineWithAllBatches) {
  for (const Case& with : cases()) {
    SCOPED_TRACE(with.name);
    const Trained expected = train_locally(with);
    for (const int rings : {1, 3}) {
      EXPECT_LT(worst_difference(expected, train_ranks(with, "grad_allreduce", 2, rings)), 2e-5);
      EXPECT_LT(worst_difference(expected, train_ranks(with, "grad_allreduce", 4, rings)), 2e-5);
    }
  }
}

// With plain SGD the average of updated parameters is the parameter updated by the average.
TEST(Ranks, LocalSgdAveragesParameters) {
  const Case with = dense("sgd", sgd);
  EXPECT_LT(worst_difference(train_locally(with), train_ranks(with, "local_sgd", 2, 1)), 2e-5);
}

}  // namespace
}  // namespace trireme::testing
