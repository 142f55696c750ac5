// Async and geo modes in numbers: updates as gradients come, delays made up for, changes added up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transpiler/training.h"

namespace trireme::testing {
namespace {

DistributeTranspilerConfig async_config() {
  DistributeTranspilerConfig config;
  config.sync_mode = false;
  return config;
}

// One weight that is cut, and a bias that is not.
Case one_layer(double rate) {
  return {"one layer",
          []() -> Var& {
            Var& x = layers::data("x", {128});
            Var& out = layers::fc(x, {.size = 160, .param_attr = seeded("w", 3), .bias_attr = "b"});
            return layers::mean(layers::square(out));
          },
          [=](Var& loss) { optimizer::Sgd(rate).minimize(loss); },
          [](int64_t begin, int64_t end) -> Feeds {
            return {{"x", samples(begin, end, 128, 1)}};
          }};
}

TEST(Async, OneTrainerGivesTheBitsOfTheUntranspiledProgram) {
  const std::vector<Case> cases = {
      dense("sgd", sgd),
      dense("adam, rate that decays",
            [](Var& l) {
              optimizer::Adam(layers::exponential_decay(0.01, 2, 0.5, true)).minimize(l);
            }),
      dense("momentum, rate by pieces, weight decay",
            [](Var& l) {
              optimizer::Momentum(layers::piecewise_decay({1, 3}, {0.05, 0.01, 0.1}), 0.9, false,
                                  {.regularization = std::make_shared<L2Decay>(0.01)})
                  .minimize(l);
            }),
      sparse("sparse", [](Var& l) { optimizer::Adagrad(0.1).minimize(l); })};
  DistributeTranspilerConfig background = async_config();
  background.runtime_split_send_recv = true;
  DistributeTranspilerConfig half = background;
  half.half_async = true;
  for (const Case& with : cases) {
    SCOPED_TRACE(with.name);
    const Trained expected = train_locally(with);
    for (const auto& config : {async_config(), background, half}) {
      EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 1, config)), 0);
    }
  }
}

// Gradients are added one after another, not averaged: two trainers go twice as far.
TEST(Async, EveryGradientCountsInFull) {
  const Case with = one_layer(0.1);
  TestCluster cluster(with, 2, async_config());
  cluster.step(with, 0);
  FreshPrograms fresh;
  const Case twice = one_layer(0.2);
  const std::string loss = build_case(twice);
  Scope scope;
  Executor executor;
  executor.run(*fresh.startup, {}, {}, {.scope = &scope});
  executor.run(*fresh.main, twice.feed(0, kBatch), {}, {.scope = &scope});
  for (const auto& [name, value] : cluster.params()) {
    const Tensor expected = scope.find(name)->tensor();
    for (int64_t i = 0; i < value.numel(); ++i) {
      ASSERT_NEAR(value.data<float>()[i], expected.data<float>()[i], 1e-6) << name;
    }
  }
}

TEST(Async, TheScheduleCountsTheBatchesOfAllTrainers) {
  Case with = one_layer(0.1);
  with.minimize = [](Var& loss) {
    optimizer::Sgd(layers::exponential_decay(0.1, 1, 0.5, true)).minimize(loss);
  };
  for (const int trainers : {1, 2, 4}) {
    TestCluster cluster(with, trainers, async_config());
    for (const int step : {0, 1}) {
      cluster.step(with, step);
      for (const auto& [endpoint, server] : cluster.servers) {
        EXPECT_EQ(*server->value("@LR_DECAY_COUNTER@").data<int64_t>(), (step + 1) * trainers);
      }
    }
  }
}

// The second trainer's gradient was computed before the first one's update arrived; it gets
// g + g * g * (w - w as the second trainer had it).
TEST(DcAsgd, MakesUpForTheAgeOfAGradient) {
  DistributeTranspilerConfig config = async_config();
  config.enable_dc_asgd = true;
  constexpr float kRate = 0.5f;
  const Case with = one_layer(kRate);
  TestCluster cluster(with, 2, config);
  for (int step = 0; step < 3; ++step) {
    const std::map<std::string, Tensor> before = cluster.params();
    // What each trainer has when it computes: as it received it at the end of its last step.
    std::vector<std::map<std::string, Tensor>> had(2);
    for (const size_t t : {0u, 1u}) {
      for (const auto& [name, value] : before) had[t][name] = cluster.trainers[t]->value(name);
    }
    cluster.step(with, step);
    bool compensated = false;
    for (const auto& [name, after] : cluster.params()) {
      const Tensor g0 = cluster.trainers[0]->value(name + "@GRAD");
      const Tensor g1 = cluster.trainers[1]->value(name + "@GRAD");
      for (int64_t i = 0; i < after.numel(); ++i) {
        const auto moved = [&](float w, float g, float seen) {
          return w - kRate * (g + g * g * (w - seen));
        };
        const float w0 = before.at(name).data<float>()[i];
        const float w1 = moved(w0, g0.data<float>()[i], had[0].at(name).data<float>()[i]);
        const float w2 = moved(w1, g1.data<float>()[i], had[1].at(name).data<float>()[i]);
        ASSERT_NEAR(after.data<float>()[i], w2, 1e-7) << name << " step " << step;
        compensated |= w2 != w1 - kRate * g1.data<float>()[i];
      }
    }
    EXPECT_TRUE(compensated);
  }
}

TEST(DcAsgd, NeedsAsyncAndDenseGradients) {
  DistributeTranspilerConfig config;
  config.enable_dc_asgd = true;
  EXPECT_THAT(error_of([&] { TestCluster(one_layer(0.1), 2, config); }),
              ::testing::HasSubstr("enable_dc_asgd is True while sync_mode is True"));
  config.sync_mode = false;
  EXPECT_THAT(error_of([&] { TestCluster(sparse("sparse", sgd), 2, config); }),
              ::testing::HasSubstr("enable_dc_asgd needs dense gradients"));
}

// ---- geo

DistributeTranspilerConfig geo_config() {
  DistributeTranspilerConfig config;
  config.geo_sgd_mode = true;
  return config;
}

// What a trainer's background thread does: pushes its share of what changed since the last time.
void push_changes(TestCluster& cluster, TestTrainer& trainer,
                  const std::map<std::string, Tensor>& old) {
  for (const PlacedParam& param : cluster.placed) {
    Tensor delta = trainer.value(param.name);
    const float* before = old.at(param.name).data<float>();
    for (int64_t i = 0; i < delta.numel(); ++i) {
      delta.data<float>()[i] =
          (delta.data<float>()[i] - before[i]) / static_cast<float>(cluster.trainers.size());
    }
    for (const Slice& slice : param.slices) {
      Message message{.name = slice.name + ".delta", .value = {}};
      Tensor part(param.dtype, slice.shape);
      std::memcpy(part.address(), delta.bytes().data() + slice.offset * 4, part.byte_size());
      message.value.tensor() = part;
      cluster.servers.at(slice.endpoint)->inbox.push_back(std::move(message));
    }
  }
  for (const auto& [endpoint, server] : cluster.servers) server->handle();
}

TEST(Geo, TrainersUpdateAndServersAddUpWhatChanged) {
  const Case with = one_layer(0.1);
  for (const int count : {1, 2}) {
    TestCluster cluster(with, count, geo_config());
    const std::map<std::string, Tensor> old = cluster.params();
    cluster.step(with, 0);
    for (const auto& trainer : cluster.trainers) push_changes(cluster, *trainer, old);
    for (const auto& [name, value] : cluster.params()) {
      for (int64_t i = 0; i < value.numel(); ++i) {
        float mean = 0;
        for (const auto& trainer : cluster.trainers) {
          mean += trainer->value(name).data<float>()[i] / static_cast<float>(count);
        }
        ASSERT_NEAR(value.data<float>()[i], mean, 1e-6) << name;
      }
    }
  }
}

TEST(Geo, TrainerProgramsKeepTheirUpdatesAndServersHaveOneSumPerBlock) {
  ClassicNet net;
  DistributeTranspiler transpiler(geo_config());
  transpiler.transpile(net.request());
  EXPECT_EQ(types_of(*transpiler.get_trainer_program(false)),
            "mul elementwise_add elementwise_sub square mean fill_constant mean_grad square_grad "
            "elementwise_sub_grad elementwise_add_grad mul_grad sgd sgd send");
  EXPECT_EQ(types_of(*net.startup),
            "fill_constant fill_constant uniform_random recv recv fetch_barrier concat send");
  EXPECT_THAT(strings(nth(*net.startup, "send"), "send_varnames"),
              ::testing::ElementsAre("param_init"));
  const auto server = transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(blocks_of(*server), "[listen_and_serv] [sum] [sum]");
  EXPECT_EQ(ops_of(server->block(2)), "sum(fc_w.block1, fc_w.block1.delta) -> fc_w.block1");
  const Op& serve = nth(*server, "listen_and_serv");
  EXPECT_EQ(serve.attr<int32_t>("distributed_mode"), 3);
  EXPECT_THAT(strings(serve, "grad_to_block_id"),
              ::testing::ElementsAre("fc_b.delta:1", "fc_w.block1.delta:2"));
}

TEST(Geo, IdsOfSparseTablesAreReportedOnceForEachTable) {
  FreshPrograms fresh;
  build_case(sparse("sparse", sgd));
  DistributeTranspiler transpiler(geo_config());
  transpiler.transpile({.program = fresh.main,
                        .startup_program = fresh.startup,
                        .pservers = kServers,
                        .trainers = 2});
  const Op& report = nth(*fresh.main, "send");
  EXPECT_THAT(report.input("X"), ::testing::ElementsAre("a", "b", "c"));
  EXPECT_THAT(strings(report, "send_varnames"), ::testing::ElementsAre("table", "table", "other"));
  for (const Op* op : fresh.main->global_block().ops()) {
    EXPECT_FALSE(op->type() == "lookup_table" && op->attr<bool>("remote_prefetch"));
  }
}

}  // namespace
}  // namespace trireme::testing
