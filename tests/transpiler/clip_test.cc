// Clips of optimizer(grad_clip=) in sync mode: they see the average of all trainers' gradients, so
// that a cluster trains as one machine with all batches does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transpiler/training.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kUntilSend =
    "mul elementwise_add elementwise_sub square mean fill_constant mean_grad square_grad "
    "elementwise_sub_grad elementwise_add_grad ";

Minimize clipped_by(std::shared_ptr<GradientClip> clip) {
  return [=](Var& loss) { optimizer::Sgd(0.1, {.grad_clip = clip}).minimize(loss); };
}

struct ClippedNet : ClassicNet {
  DistributeTranspiler transpiler;
  explicit ClippedNet(std::shared_ptr<GradientClip> clip, int trainer_id = 0, int trainers = 2,
                      bool sync = true)
      : ClassicNet(clipped_by(std::move(clip))) {
    TranspileRequest asked = request(trainer_id, trainers);
    asked.sync_mode = sync;
    transpiler.transpile(asked);
  }
};

TEST(Clip, ByValueFollowsTheAverage) {
  ClippedNet net(std::make_shared<GradientClipByValue>(1.0));
  EXPECT_EQ(types_of(*net.main), kUntilSend +
                                     "send mul_grad split_byref send send_barrier recv recv "
                                     "fetch_barrier concat");
  EXPECT_THAT(nth(*net.main, "send").input("X"), ElementsAre("fc_b@GRAD.trainer_0"));
  const auto server = net.transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(blocks_of(*server), "[listen_and_serv] [sum scale clip sgd] [sum scale clip sgd]");
  EXPECT_EQ(server->block(2).op(2).input("X"), server->block(2).op(1).output("Out"));
  EXPECT_EQ(server->block(2).op(3).input("Grad"), server->block(2).op(2).output("Out"));
}

TEST(Clip, ByNormKeepsItsParameterWhole) {
  ClippedNet net(std::make_shared<GradientClipByNorm>(1.0));
  EXPECT_EQ(types_of(*net.main),
            kUntilSend + "send mul_grad send send_barrier recv recv fetch_barrier");
  for (const std::string& endpoint : {kEp0, kEp1}) {
    EXPECT_EQ(blocks_of(*net.transpiler.get_pserver_program(endpoint)),
              "[listen_and_serv] [sum scale clip_by_norm sgd]");
  }
}

TEST(Clip, ByGlobalNormTakesTwoRounds) {
  ClippedNet first(std::make_shared<GradientClipByGlobalNorm>(1.0));
  EXPECT_EQ(types_of(*first.main),
            kUntilSend +
                "send mul_grad split_byref send send_barrier recv fetch_barrier sum send "
                "send_barrier recv recv fetch_barrier concat");
  const Op& parts = nth(*first.main, "recv");
  const std::string total = nth(*first.main, "sum").output("Out").front();
  EXPECT_THAT(parts.output("Out"), ElementsAre(total + ".part_0", total + ".part_1"));
  EXPECT_THAT(strings(parts, "epmap"), ElementsAre(kEp0, kEp1));
  EXPECT_THAT(nth(*first.main, "send", 2).input("X"), ElementsAre(total, total));

  // The others only keep the barriers.
  ClippedNet second(std::make_shared<GradientClipByGlobalNorm>(1.0), 1);
  EXPECT_EQ(types_of(*second.main),
            kUntilSend +
                "send mul_grad split_byref send send_barrier fetch_barrier send_barrier recv recv "
                "fetch_barrier concat");

  const auto server = first.transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(blocks_of(*server),
            "[listen_and_serv] [sum scale square reduce_sum] [sum scale square reduce_sum] [sum] "
            "[sqrt fill_constant elementwise_max elementwise_div] [elementwise_mul sgd] "
            "[elementwise_mul sgd]");
  const Op& serve = nth(*server, "listen_and_serv");
  EXPECT_THAT(serve.attr<BlockRefs>("optimize_blocks").indices, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(serve.attr<std::vector<int32_t>>("blocks_by_round"), ElementsAre(3, 3));
  EXPECT_EQ(serve.input("X").back(), total);
  EXPECT_EQ(server->block(3).parent_index(), 2);  // not beside those whose numbers it adds up
  EXPECT_EQ(server->block(5).parent_index(), 4);
}

// One trainer's gradient is the average; without barriers there is no average.
TEST(Clip, StaysOnTheTrainerWhereNothingIsAveraged) {
  const auto clip = std::make_shared<GradientClipByGlobalNorm>(1.0);
  for (const bool sync : {true, false}) {
    ClippedNet net(clip, 0, sync ? 1 : 2, sync);
    EXPECT_THAT(types_of(*net.main), HasSubstr("elementwise_mul send"));
    EXPECT_EQ(blocks_of(*net.transpiler.get_pserver_program(kEp1)), "[listen_and_serv] [sgd]");
  }
}

// ---- numbers

std::vector<Case> cases() {
  const auto value = std::make_shared<GradientClipByValue>(0.002);
  const auto norm = std::make_shared<GradientClipByNorm>(0.01);
  const auto global = std::make_shared<GradientClipByGlobalNorm>(0.05);
  const Minimize all = [=](Var& loss) {
    optimizer::Momentum(layers::exponential_decay(0.1, 2, 0.5, true), 0.9, false,
                        {.regularization = std::make_shared<L2Decay>(0.01), .grad_clip = global})
        .minimize(loss);
  };
  return {dense("by value", clipped_by(value)),
          dense("by norm", clipped_by(norm)),
          dense("by global norm", clipped_by(global)),
          dense("by global norm, with decays", all),
          sparse("sparse, by value", clipped_by(value)),
          sparse("sparse, by norm", clipped_by(norm)),
          sparse("sparse, by global norm", clipped_by(global)),
          sparse("sparse, by global norm, with decays", all)};
}

TEST(Clip, TwoTrainersGiveTheNumbersOfOneMachineWithBothBatches) {
  for (const Case& with : cases()) {
    SCOPED_TRACE(with.name);
    const Trained expected = train_locally(with);
    EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 1)), 0);
    EXPECT_LT(worst_difference(expected, train_in_cluster(with, 2)), 2e-5);
    EXPECT_LT(worst_difference(expected, train_in_cluster(with, 4, {}, "a:1,b:1,c:1")), 2e-5);
    // It clips: without, the numbers are others.
    const Case plain{with.name, with.build, sgd, with.feed};
    EXPECT_GT(worst_difference(expected, train_locally(plain)), 1e-4);
  }
}

// set_gradient_clip is each trainer's own, as it always was.
TEST(Clip, OfSetGradientClipIsEachTrainersOwn) {
  const Case with = dense("set_gradient_clip", [](Var& loss) {
    set_gradient_clip(std::make_shared<GradientClipByGlobalNorm>(0.05));
    sgd(loss);
  });
  const Trained expected = train_locally(with);
  EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 1)), 0);
  EXPECT_GT(worst_difference(expected, train_in_cluster(with, 2)), 1e-5);
}

}  // namespace
}  // namespace trireme::testing
