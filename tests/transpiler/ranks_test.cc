// Collective modes in numbers: ranks are threads of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "tests/support/ranks.h"
#include "tests/transpiler/training.h"

namespace trireme::testing {
namespace {

// Leaves out how the processes meet: they have met.
void leave_out_meeting(Program& startup) {
  Block& block = startup.global_block();
  for (size_t i = block.size(); i-- > 0;) {
    const std::string& type = block.op(i).type();
    if (type == "c_gen_nccl_id" || type == "c_comm_init") block.remove_ops(i, i + 1);
  }
}

struct How {
  const char* mode = "grad_allreduce";
  int count = 2, rings = 1;
  bool passes = true;
};

Trained train_ranks(const Case& with, const How& how) {
  const Ranks ranks = make_ranks(how.count);
  std::string loss;
  Strings endpoints;
  for (int r = 0; r < how.count; ++r) endpoints.push_back(cat("10.0.0.", r, ":1"));
  for (int r = 0; r < how.count; ++r) {
    FreshPrograms fresh;
    loss = build_case(with);
    DistributeTranspilerConfig config;
    config.mode = "collective";
    config.collective_mode = how.mode;
    config.nccl_comm_num = how.rings;
    config.wait_port = false;
    DistributeTranspiler(config).transpile({.trainer_id = r,
                                            .program = fresh.main,
                                            .startup_program = fresh.startup,
                                            .trainers = endpoints,
                                            .current_endpoint = endpoints[static_cast<size_t>(r)]});
    leave_out_meeting(*fresh.startup);
    ranks[static_cast<size_t>(r)]->main = fresh.main;
    ranks[static_cast<size_t>(r)]->startup = fresh.startup;
  }
  for (int ring = 0; ring < how.rings; ++ring) meet(ranks, ring_name(ring));
  const std::vector<std::string> off = how.passes ? std::vector<std::string>{} : pass_names();
  const int64_t share = with.batch / how.count;
  std::vector<std::vector<float>> losses(ranks.size());
  EXPECT_EQ(on_each(ranks,
                    [&](Rank& rank, int r) {
                      rank.executor.run(*rank.startup, {}, {},
                                        {.scope = &rank.scope, .passes_off = off});
                      for (int step = 0; step < kSteps; ++step) {
                        const int64_t begin = step * with.batch + r * share;
                        losses[static_cast<size_t>(r)].push_back(
                            *rank.executor
                                 .run_one(*rank.main, with.feed(begin, begin + share), loss,
                                          {.scope = &rank.scope, .passes_off = off})
                                 .data<float>());
                      }
                    }),
            all_went_well(ranks));
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    float sum = 0;
    for (const auto& of_rank : losses) sum += of_rank[static_cast<size_t>(step)];
    trained.losses.push_back(sum / static_cast<float>(how.count));
  }
  for (const Var* param : ranks.front()->main->parameters()) {
    trained.params[param->name()] = ranks.front()->scope.find(param->name())->tensor().clone();
    for (const auto& rank : ranks) {
      EXPECT_EQ(std::memcmp(trained.params[param->name()].raw(),
                            std::as_const(*rank->scope.find(param->name())).tensor().raw(),
                            trained.params[param->name()].byte_size()),
                0);
    }
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
      for (const int count : {2, 4}) {
        EXPECT_LT(worst_difference(expected, train_ranks(with, {.count = count, .rings = rings})),
                  2e-5);
      }
    }
  }
}

TEST(Ranks, WithEveryPassOffTheBitsAreThoseWithThePasses) {
  const Case with = dense("sgd", sgd);
  EXPECT_EQ(worst_difference(train_ranks(with, {}), train_ranks(with, {.passes = false})), 0);
}

// With plain SGD the average of updated parameters is the parameter updated by the average.
TEST(Ranks, LocalSgdAveragesParameters) {
  const Case with = dense("sgd", sgd);
  EXPECT_LT(worst_difference(train_locally(with), train_ranks(with, {.mode = "local_sgd"})), 2e-5);
}

}  // namespace
}  // namespace trireme::testing
