// Trainer programs of parameter-server mode: op sequences, names and attributes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kForward = "mul elementwise_add elementwise_sub square mean ";
const std::string kBackward =
    "fill_constant mean_grad square_grad elementwise_sub_grad elementwise_add_grad ";

Var& decayed_for_trainer() { return layers::exponential_decay(1.0, 100, 0.1, true); }

TEST(Trainer, SyncSendsAndReceivesSlices) {
  ClassicNet net;
  DistributeTranspiler transpiler;
  transpiler.transpile(net.request());
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_EQ(main, net.main);
  EXPECT_EQ(types_of(*main), kForward + kBackward +
                                 "send mul_grad split_byref send send_barrier recv recv "
                                 "fetch_barrier concat");
  EXPECT_EQ(types_of(*net.startup), "fill_constant uniform_random recv recv fetch_barrier concat");

  const Op& bias = nth(*main, "send");
  EXPECT_THAT(bias.input("X"), ElementsAre("fc_b@GRAD.trainer_0"));
  EXPECT_THAT(strings(bias, "epmap"), ElementsAre(kEp0));
  EXPECT_THAT(strings(bias, "op_role_var"), ElementsAre("fc_b", "fc_b@GRAD.trainer_0"));
  EXPECT_THAT(strings(bias, "send_varnames"), IsEmpty());
  EXPECT_EQ(bias.role(), op_role::kRpc);

  const Op& split = nth(*main, "split_byref");
  EXPECT_THAT(split.attr<std::vector<int32_t>>("sections"), ElementsAre(500, 500));
  EXPECT_THAT(split.output("Out"),
              ElementsAre("fc_w@GRAD.block0.trainer_0", "fc_w@GRAD.block1.trainer_0"));
  EXPECT_EQ(main->global_block().var("fc_w@GRAD.block1.trainer_0").shape(), (Shape{500, 1000}));
  EXPECT_EQ(split.role(), op_role::kDist);

  const Op& weight = nth(*main, "send", 1);
  EXPECT_EQ(weight.input("X"), split.output("Out"));
  EXPECT_THAT(strings(weight, "epmap"), ElementsAre(kEp1, kEp0));
  EXPECT_THAT(strings(weight, "op_role_var"), ElementsAre("fc_w", "fc_w@GRAD"));

  const Op& barrier = nth(*main, "send_barrier");
  EXPECT_THAT(strings(barrier, "endpoints"), ElementsAre(kEp0, kEp1));
  EXPECT_EQ(barrier.input("X").size(), 2u);
  EXPECT_FALSE(barrier.attr<bool>("half_async"));

  EXPECT_THAT(nth(*main, "recv").output("Out"), ElementsAre("fc_b"));
  EXPECT_THAT(strings(nth(*main, "recv"), "epmap"), ElementsAre(kEp0));
  EXPECT_EQ(nth(*main, "recv").input("X"), barrier.output("Out"));
  EXPECT_THAT(nth(*main, "recv", 1).output("Out"), ElementsAre("fc_w.block0", "fc_w.block1"));
  EXPECT_THAT(strings(nth(*main, "recv", 1), "epmap"), ElementsAre(kEp1, kEp0));
  EXPECT_THAT(nth(*main, "fetch_barrier").output("Out"),
              ElementsAre("fc_b", "fc_w.block0", "fc_w.block1"));
  EXPECT_THAT(nth(*main, "concat").output("Out"), ElementsAre("fc_w"));
  EXPECT_FALSE(main->global_block().var("fc_w.block0").persistable());
  EXPECT_EQ(main->global_block().find_var("learning_rate_0"), nullptr);
  EXPECT_EQ(net.startup->global_block().find_var("learning_rate_0"), nullptr);

  const Op& first = nth(*net.startup, "recv", 1);
  EXPECT_THAT(first.output("Out"), ElementsAre("fc_w.block0", "fc_w.block1"));
  EXPECT_THAT(first.input("X"), IsEmpty());
}

TEST(Trainer, EachTrainerHasItsOwnGradientNames) {
  ClassicNet net;
  DistributeTranspiler transpiler;
  transpiler.transpile(net.request(1, 4));
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_THAT(nth(*main, "send").input("X"), ElementsAre("fc_b@GRAD.trainer_1"));
  EXPECT_THAT(nth(*main, "send", 1).input("X"),
              ElementsAre("fc_w@GRAD.block0.trainer_1", "fc_w@GRAD.block1.trainer_1"));
  EXPECT_EQ(nth(*main, "recv").attr<int32_t>("trainer_id"), 1);
}

TEST(Trainer, OneTrainerNeedsNoSuffix) {
  ClassicNet net;
  DistributeTranspiler transpiler;
  transpiler.transpile(net.request(0, 1));
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_THAT(nth(*main, "send").input("X"), ElementsAre("fc_b@GRAD"));
  EXPECT_THAT(nth(*main, "send", 1).input("X"),
              ElementsAre("fc_w@GRAD.block0", "fc_w@GRAD.block1"));
}

TEST(Trainer, LargeBlocksAreNotCut) {
  for (const bool slice : {true, false}) {
    ClassicNet net;
    DistributeTranspilerConfig config;
    if (slice) config.min_block_size = 1048576;
    config.slice_var_up = slice;
    DistributeTranspiler transpiler(config);
    transpiler.transpile(net.request());
    EXPECT_EQ(types_of(*transpiler.get_trainer_program(false)),
              kForward + kBackward + "send mul_grad send send_barrier recv recv fetch_barrier");
    EXPECT_EQ(types_of(*net.startup), "fill_constant uniform_random recv recv fetch_barrier");
  }
}

TEST(Trainer, AsyncHasNoBarriers) {
  for (const bool in_config : {true, false}) {
    ClassicNet net;
    DistributeTranspilerConfig config;
    config.sync_mode = !in_config;
    DistributeTranspiler transpiler(config);
    TranspileRequest request = net.request();
    request.sync_mode = in_config;
    transpiler.transpile(request);
    const auto main = transpiler.get_trainer_program(false);
    EXPECT_EQ(types_of(*main),
              kForward + kBackward + "send mul_grad split_byref send recv recv concat");
    EXPECT_EQ(types_of(*net.startup),
              "fill_constant uniform_random recv recv fetch_barrier concat");
    EXPECT_THAT(nth(*main, "send").input("X"), ElementsAre("fc_b@GRAD"));
    EXPECT_THAT(nth(*main, "split_byref").output("Out"),
                ElementsAre("fc_w@GRAD.block0", "fc_w@GRAD.block1"));
    EXPECT_EQ(nth(*main, "recv", 1).input("X"), nth(*main, "send", 1).output("Out"));
    EXPECT_EQ(nth(*transpiler.get_pserver_program(kEp0), "listen_and_serv")
                  .attr<int32_t>("distributed_mode"),
              2);
  }
}

TEST(Trainer, RuntimeSplitLeavesSlicingToTheSender) {
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.sync_mode = false;
  config.runtime_split_send_recv = true;
  DistributeTranspiler transpiler(config);
  transpiler.transpile(net.request());
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_EQ(types_of(*main), kForward + kBackward + "send mul_grad send recv recv");
  const Op& bias = nth(*main, "send");
  EXPECT_THAT(bias.attr<std::vector<int64_t>>("sections"), ElementsAre(1000));
  EXPECT_THAT(strings(bias, "send_varnames"), ElementsAre("fc_b@GRAD"));
  const Op& weight = nth(*main, "send", 1);
  EXPECT_THAT(weight.input("X"), ElementsAre("fc_w@GRAD"));
  EXPECT_THAT(weight.attr<std::vector<int64_t>>("sections"), ElementsAre(500, 500));
  EXPECT_THAT(strings(weight, "send_varnames"),
              ElementsAre("fc_w@GRAD.block0", "fc_w@GRAD.block1"));
  EXPECT_THAT(nth(*main, "recv", 1).output("Out"), ElementsAre("fc_w"));
  EXPECT_THAT(strings(nth(*main, "recv", 1), "recv_varnames"),
              ElementsAre("fc_w.block0", "fc_w.block1"));
  EXPECT_EQ(nth(*transpiler.get_pserver_program(kEp0), "listen_and_serv")
                .attr<int32_t>("distributed_mode"),
            1);
}

TEST(Trainer, HalfAsyncWaitsForItsOwnThreads) {
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.sync_mode = false;
  config.runtime_split_send_recv = true;
  config.half_async = true;
  config.completely_not_async = true;
  DistributeTranspiler transpiler(config);
  transpiler.transpile(net.request(1));
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_EQ(types_of(*main), kForward + kBackward + "send mul_grad send send_barrier recv recv");
  EXPECT_TRUE(nth(*main, "send_barrier").attr<bool>("half_async"));
  EXPECT_THAT(strings(nth(*main, "send", 1), "send_varnames"),
              ElementsAre("fc_w@GRAD.block0.trainer_1", "fc_w@GRAD.block1.trainer_1"));
  const auto server = transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(nth(*server, "listen_and_serv").attr<int32_t>("distributed_mode"), 0);
  EXPECT_EQ(blocks_of(*server), "[listen_and_serv] [sum scale sgd] [sum scale sgd]");
}

TEST(Trainer, DecaysTheLearningRateOnTheServersInAsync) {
  ClassicNet net([](Var& loss) { optimizer::Sgd(decayed_for_trainer()).minimize(loss); });
  DistributeTranspilerConfig config;
  config.sync_mode = false;
  DistributeTranspiler transpiler(config);
  transpiler.transpile(net.request(1));
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_EQ(types_of(*main),
            kForward + kBackward + "send mul_grad split_byref send send recv recv concat");
  EXPECT_EQ(types_of(*net.startup),
            "fill_constant fill_constant fill_constant fill_constant uniform_random recv recv "
            "fetch_barrier concat");
  const Op& counter = nth(*main, "send", 2);
  EXPECT_THAT(counter.input("X"), ElementsAre("@LR_DECAY_COUNTER@.trainer_1"));
  EXPECT_THAT(strings(counter, "epmap"), ElementsAre(kEp0, kEp1));
  EXPECT_TRUE(counter.attr<bool>("merge_add"));
  EXPECT_FALSE(counter.attr<bool>("use_send_handler"));
}

TEST(Trainer, WeightDecayMovesAndSendsFollowTheWholeBackwardPass) {
  for (const bool adam : {true, false}) {
    ClassicNet net([&](Var& loss) {
      OptimizerOptions options{.regularization = std::make_shared<L2Decay>(0.1)};
      if (adam) {
        optimizer::Adam(decayed_for_trainer(), {}, options).minimize(loss);
      } else {
        optimizer::Momentum(decayed_for_trainer(), 0.9, false, options).minimize(loss);
      }
    });
    DistributeTranspiler transpiler;
    transpiler.transpile(net.request());
    EXPECT_EQ(types_of(*transpiler.get_trainer_program(false)),
              kForward + kBackward +
                  "mul_grad send split_byref send send_barrier recv recv fetch_barrier concat");
    EXPECT_EQ(types_of(*net.startup),
              "fill_constant fill_constant uniform_random recv recv fetch_barrier concat");
  }
}

// Alone, a trainer clips its gradients itself: they are the average.
TEST(Trainer, OneTrainerClipsBeforeItSends) {
  ClassicNet net([&](Var& loss) {
    set_gradient_clip(std::make_shared<GradientClipByValue>(1.0));
    sgd(loss);
  });
  DistributeTranspiler transpiler;
  transpiler.transpile(net.request(0, 1));
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_EQ(types_of(*main), kForward + kBackward +
                                 "mul_grad clip send clip split_byref send send_barrier recv "
                                 "recv fetch_barrier concat");
  EXPECT_EQ(nth(*main, "clip").output("Out"), nth(*main, "send").input("X"));
  EXPECT_EQ(nth(*main, "clip", 1).output("Out"), nth(*main, "split_byref").input("X"));
  EXPECT_EQ(nth(*main, "clip").role(), op_role::kBackward);
}

TEST(Trainer, WithWeightDecayBothClipsComeBeforeTheFirstSend) {
  ClassicNet net([](Var& loss) {
    set_gradient_clip(std::make_shared<GradientClipByValue>(1.0));
    optimizer::Momentum(decayed_for_trainer(), 0.9, false,
                        {.regularization = std::make_shared<L2Decay>(0.1)})
        .minimize(loss);
  });
  DistributeTranspiler transpiler;
  transpiler.transpile(net.request(0, 1));
  EXPECT_EQ(types_of(*transpiler.get_trainer_program(false)),
            kForward + kBackward +
                "mul_grad clip clip send split_byref send send_barrier recv recv fetch_barrier "
                "concat");
}

TEST(Trainer, PiecewiseBlocksGoWithTheSchedule) {
  ClassicNet net([](Var& loss) {
    optimizer::Sgd(layers::piecewise_decay({100, 200}, {1, 0.5, 0.1})).minimize(loss);
  });
  DistributeTranspiler transpiler;
  transpiler.transpile(net.request());
  EXPECT_EQ(transpiler.get_trainer_program(false)->num_blocks(), 1u);
}

// What all sides look like, asked for in this order.
std::map<std::string, std::string> asked_in(const Strings& order, const ClassicNet& net) {
  TranspileRequest request = net.request();
  request.program = clone(*net.main, false);
  request.startup_program = clone(*net.startup, false);
  DistributeTranspiler transpiler;
  transpiler.transpile(request);
  std::map<std::string, std::string> texts;
  const auto add = [&](const std::string& name, const Program& program) {
    const auto [at, fresh] = texts.emplace(name, to_text(program));
    EXPECT_EQ(at->second, to_text(program)) << name << " has changed";
  };
  for (int round = 0; round < 2; ++round) {
    for (const std::string& side : order) {
      if (side == "trainer") add(side, *transpiler.get_trainer_program(false));
      if (side == "program") add("main", *transpiler.get_pserver_program(kEp0));
      if (side == "startup") add(side, *transpiler.get_startup_program(kEp0));
      if (side == "programs") {
        const auto [main, startup] = transpiler.get_pserver_programs(kEp0);
        add("main", *main);
        add("startup", *startup);
      }
      add("trainer's startup", *request.startup_program);
    }
  }
  return texts;
}

TEST(Trainer, SidesMayBeAskedForInAnyOrderAndAgain) {
  const ClassicNet net([](Var& loss) { optimizer::Adam(decayed_for_trainer()).minimize(loss); });
  const auto expected = asked_in({"trainer", "program", "startup", "programs"}, net);
  EXPECT_EQ(expected.size(), 4u);
  Strings order = {"program", "programs", "startup", "trainer"};
  do {
    EXPECT_TRUE(asked_in(order, net) == expected) << join(order);
  } while (std::ranges::next_permutation(order).found);
}

void expect_kept(const std::vector<std::shared_ptr<Program>>& programs) {
  for (const auto& program : programs) {
    const std::string bytes = serialize(*program);
    EXPECT_EQ(serialize(*parse_program(bytes)), bytes);
    EXPECT_EQ(serialize(*clone(*program, false)), bytes);
    EXPECT_EQ(clone(*program, false)->distributed, program->distributed);
    EXPECT_EQ(to_text(*clone(*program, false)), to_text(*program));
    EXPECT_FALSE(to_text(*program).empty());
  }
}

TEST(Programs, PrintSaveLoadAndClone) {
  const auto clip = std::make_shared<GradientClipByGlobalNorm>(1.0);
  const Minimize all = [&](Var& loss) {
    optimizer::Adam(layers::piecewise_decay({1, 2}, {1, 0.5, 0.1}), {}, {.grad_clip = clip})
        .minimize(loss);
  };
  DistributeTranspilerConfig async, background, geo, delayed;
  async.sync_mode = background.sync_mode = delayed.sync_mode = false;
  background.runtime_split_send_recv = background.half_async = true;
  geo.geo_sgd_mode = true;
  delayed.enable_dc_asgd = true;
  for (const auto& config : {DistributeTranspilerConfig(), async, background, geo, delayed}) {
    ClassicNet net(all);
    DistributeTranspiler transpiler(config);
    transpiler.transpile(net.request());
    const auto [server, server_startup] = transpiler.get_pserver_programs(kEp0);
    expect_kept({net.main, net.startup, server, server_startup});
  }
  for (const char* mode : {"nccl2", "grad_allreduce", "local_sgd"}) {
    ClassicNet net(all);
    DistributeTranspilerConfig config;
    config.mode = mode == std::string("nccl2") ? "nccl2" : "collective";
    config.collective_mode = mode;
    TranspileRequest request = net.request();
    request.trainers = std::string(kServers);
    request.current_endpoint = kEp0;
    DistributeTranspiler(config).transpile(request);
    expect_kept({net.main, net.startup});
  }
}

}  // namespace
}  // namespace trireme::testing
