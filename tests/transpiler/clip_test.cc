// Clips in sync mode see the average of all trainers' gradients, whoever asked for them: a cluster
// trains as one machine with all batches does. Where nothing is averaged, trainers clip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transpiler/training.h"
#include "transpiler/memory_optimize.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clip = std::shared_ptr<GradientClip>;

const std::string kUntilSend =
    "mul elementwise_add elementwise_sub square mean fill_constant mean_grad square_grad "
    "elementwise_sub_grad elementwise_add_grad ";

// The ways to ask: the optimizer's argument, all parameters, or a list of them.
enum class Asked { of_optimizer, of_program, of_list };
constexpr Asked kWays[] = {Asked::of_optimizer, Asked::of_program, Asked::of_list};

void ask(Asked way, const Clip& clip, OptimizerOptions& options) {
  if (way == Asked::of_optimizer) options.grad_clip = clip;
  if (way == Asked::of_program) set_gradient_clip(clip);
  if (way != Asked::of_list) return;
  Strings names;
  for (const Var* param : default_main_program().parameters()) names.push_back(param->name());
  set_gradient_clip(clip, names);
}

Minimize clipped_by(const Clip& clip, Asked way = Asked::of_optimizer) {
  return [=](Var& loss) {
    OptimizerOptions options;
    ask(way, clip, options);
    optimizer::Sgd(0.1, options).minimize(loss);
  };
}

struct ClippedNet : ClassicNet {
  DistributeTranspiler transpiler;
  explicit ClippedNet(const Minimize& minimize, int trainer_id = 0, int trainers = 2,
                      const DistributeTranspilerConfig& config = {})
      : ClassicNet(minimize), transpiler(config) {
    transpiler.transpile(request(trainer_id, trainers));
  }
};

DistributeTranspilerConfig async() {
  DistributeTranspilerConfig config;
  config.sync_mode = false;
  return config;
}

// Background threads send, and wait for all trainers.
DistributeTranspilerConfig background_sync() {
  DistributeTranspilerConfig config = async();
  config.runtime_split_send_recv = true;
  config.half_async = true;
  config.completely_not_async = true;
  return config;
}

TEST(Clip, ByValueFollowsTheAverage) {
  for (const Asked way : kWays) {
    ClippedNet net(clipped_by(std::make_shared<GradientClipByValue>(1.0), way));
    EXPECT_EQ(types_of(*net.main), kUntilSend +
                                       "send mul_grad split_byref send send_barrier recv recv "
                                       "fetch_barrier concat");
    EXPECT_THAT(nth(*net.main, "send").input("X"), ElementsAre("fc_b@GRAD.trainer_0"));
    EXPECT_THAT(nth(*net.main, "split_byref").input("X"), ElementsAre("fc_w@GRAD"));
    const auto server = net.transpiler.get_pserver_program(kEp0);
    EXPECT_EQ(blocks_of(*server), "[listen_and_serv] [sum scale clip sgd] [sum scale clip sgd]");
    EXPECT_EQ(server->block(2).op(2).input("X"), server->block(2).op(1).output("Out"));
    EXPECT_EQ(server->block(2).op(3).input("Grad"), server->block(2).op(2).output("Out"));
  }
}

// Weight decay follows the clip, on the server.
TEST(Clip, ComesBeforeWeightDecay) {
  for (const Asked way : kWays) {
    ClippedNet net([&](Var& loss) {
      OptimizerOptions options{.regularization = std::make_shared<L2Decay>(0.1)};
      ask(way, std::make_shared<GradientClipByValue>(1.0), options);
      optimizer::Momentum(0.1, 0.9, false, options).minimize(loss);
    });
    EXPECT_EQ(blocks_of(*net.transpiler.get_pserver_program(kEp1)),
              "[listen_and_serv] [sum scale clip scale sum momentum]");
  }
}

TEST(Clip, ByNormKeepsItsParameterWhole) {
  for (const Asked way : kWays) {
    ClippedNet net(clipped_by(std::make_shared<GradientClipByNorm>(1.0), way));
    EXPECT_EQ(types_of(*net.main),
              kUntilSend + "send mul_grad send send_barrier recv recv fetch_barrier");
    for (const std::string& endpoint : {kEp0, kEp1}) {
      EXPECT_EQ(blocks_of(*net.transpiler.get_pserver_program(endpoint)),
                "[listen_and_serv] [sum scale clip_by_norm sgd]");
    }
  }
}

TEST(Clip, ByGlobalNormTakesTwoRounds) {
  for (const Asked way : kWays) {
    const Minimize minimize = clipped_by(std::make_shared<GradientClipByGlobalNorm>(1.0), way);
    ClippedNet first(minimize);
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
    ClippedNet second(minimize, 1);
    EXPECT_EQ(types_of(*second.main),
              kUntilSend +
                  "send mul_grad split_byref send send_barrier fetch_barrier send_barrier recv "
                  "recv fetch_barrier concat");

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
}

// Their thread sends the barriers of receiving itself, and takes one variable per op.
TEST(Clip, ByGlobalNormTakesTwoRoundsOfBackgroundSenders) {
  ClippedNet net(clipped_by(std::make_shared<GradientClipByGlobalNorm>(1.0)), 0, 2,
                 background_sync());
  EXPECT_EQ(types_of(*net.main), kUntilSend +
                                     "send mul_grad send send_barrier recv recv sum send send "
                                     "send_barrier recv recv");
  const std::string total = nth(*net.main, "sum").output("Out").front();
  EXPECT_THAT(strings(nth(*net.main, "recv", 1), "recv_varnames"), ElementsAre(total + ".part_1"));
  EXPECT_THAT(strings(nth(*net.main, "send", 3), "send_varnames"), ElementsAre(total));
  EXPECT_THAT(strings(nth(*net.main, "send", 3), "epmap"), ElementsAre(kEp1));
}

TEST(Clip, EachGroupHasATotal) {
  ClippedNet net([](Var& loss) {
    set_gradient_clip(std::make_shared<GradientClipByGlobalNorm>(1.0, "bias"), {"fc_b"});
    set_gradient_clip(std::make_shared<GradientClipByGlobalNorm>(2.0, "weight"), {"fc_w"});
    sgd(loss);
  });
  // Alone in its group, a parameter's norm needs nobody else's number: it stays whole instead.
  EXPECT_EQ(types_of(*net.main),
            kUntilSend + "send mul_grad send send_barrier recv recv fetch_barrier");
  const std::string alone =
      "[listen_and_serv] [sum scale square reduce_sum sum sqrt fill_constant elementwise_max "
      "elementwise_div elementwise_mul sgd]";
  EXPECT_EQ(blocks_of(*net.transpiler.get_pserver_program(kEp0)), alone);
  EXPECT_EQ(blocks_of(*net.transpiler.get_pserver_program(kEp1)), alone);
}

// One trainer's gradient is the average; where trainers do not wait for each other there is none.
TEST(Clip, StaysOnTheTrainerWhereNothingIsAveraged) {
  for (const Asked way : kWays) {
    const Minimize minimize = clipped_by(std::make_shared<GradientClipByGlobalNorm>(1.0), way);
    DistributeTranspilerConfig background = async(), half;
    background.runtime_split_send_recv = true;
    half = background;
    half.half_async = true;
    for (const auto& config : {DistributeTranspilerConfig(), async(), background, half}) {
      ClippedNet net(minimize, 0, config.sync_mode ? 1 : 2, config);
      EXPECT_THAT(types_of(*net.main), HasSubstr("elementwise_mul send"));
      EXPECT_EQ(nth(*net.main, "elementwise_mul").role(), op_role::kBackward);
      EXPECT_EQ(blocks_of(*net.transpiler.get_pserver_program(kEp1)), "[listen_and_serv] [sgd]");
    }
  }
}

// Geo's trainers update, so they clip.
TEST(Clip, StaysWithTheUpdateInGeo) {
  DistributeTranspilerConfig geo;
  geo.geo_sgd_mode = true;
  ClippedNet net(clipped_by(std::make_shared<GradientClipByValue>(1.0), Asked::of_program), 0, 2,
                 geo);
  EXPECT_THAT(types_of(*net.main), HasSubstr("mul_grad clip clip sgd sgd send"));
}

// A clip of one's own: the larger of two gradients decides about both.
TEST(Clip, OfSeveralGradientsByAnythingButASumIsRefused) {
  struct ByLargest final : GradientClip {
    ParamGrads operator()(const ParamGrads& pairs) override {
      std::vector<Var*> largest;
      for (const auto& [param, grad] : pairs) {
        const RoleGuard role =
            optimized_guard(param->block().program(), {param->name(), grad->name()});
        largest.push_back(&layers::reduce("reduce_max", *grad));
      }
      const auto& [param, grad] = pairs.front();
      const RoleGuard role =
          optimized_guard(param->block().program(), {param->name(), grad->name()});
      Var& factor = layers::elementwise_max(*largest[0], *largest[1]);
      return {{param, &layers::elementwise_div(*grad, factor)}, pairs[1]};
    }
    std::string describe() const override { return "by the largest"; }
  };
  const Minimize minimize = clipped_by(std::make_shared<ByLargest>());
  EXPECT_THAT(error_of([&] { ClippedNet net(minimize); }),
              ::testing::AllOf(HasSubstr("clipped together by elementwise_max"),
                               HasSubstr("only their sum can be computed")));
  EXPECT_EQ(error_of([&] { ClippedNet net(minimize, 0, 1); }), "no error");
}

// ---- numbers

Minimize with_decays(const Clip& clip, Asked way) {
  return [=](Var& loss) {
    OptimizerOptions options{.regularization = std::make_shared<L2Decay>(0.01)};
    ask(way, clip, options);
    optimizer::Momentum(layers::exponential_decay(0.1, 2, 0.5, true), 0.9, false, options)
        .minimize(loss);
  };
}

// The first parameters in one group, the last ones in another, one by value and one not at all.
void clipped_by_groups(Var& loss) {
  const auto group = [](double norm, const char* name) {
    return std::make_shared<GradientClipByGlobalNorm>(norm, name);
  };
  Strings names;
  for (const Var* param : default_main_program().parameters()) names.push_back(param->name());
  set_gradient_clip(group(0.03, "first"), {names.at(0), names.at(1)});
  set_gradient_clip(group(0.05, "last"), {names.at(2), names.at(3)});
  if (names.size() > 4) set_gradient_clip(std::make_shared<GradientClipByValue>(0.002), {names[4]});
  sgd(loss);
}

// Four layers, so that there is something to group.
Case deep(const std::string& name, const Minimize& minimize) {
  Case with = dense(name, minimize);
  with.build = []() -> Var& {
    Var* hidden = &layers::data("x", {128});
    for (const char* layer : {"1", "2", "3"}) {
      hidden = &layers::fc(*hidden, {.size = 128,
                                     .param_attr = seeded(("w" + std::string(layer)).c_str(), 3),
                                     .bias_attr = ("b" + std::string(layer)).c_str(),
                                     .act = "tanh"});
    }
    return layers::mean(layers::square_error_cost(
        layers::reduce_mean(*hidden, {.dim = {1}, .keep_dim = true}), layers::data("y", {1})));
  };
  return with;
}

std::vector<Case> clip_cases(Asked way) {
  const auto value = std::make_shared<GradientClipByValue>(0.002);
  const auto norm = std::make_shared<GradientClipByNorm>(0.01);
  const auto global = std::make_shared<GradientClipByGlobalNorm>(0.05);
  return {dense("by value", clipped_by(value, way)),
          dense("by norm", clipped_by(norm, way)),
          dense("by global norm", clipped_by(global, way)),
          dense("by global norm, with decays", with_decays(global, way)),
          sparse("sparse, by value", clipped_by(value, way)),
          sparse("sparse, by norm", clipped_by(norm, way)),
          sparse("sparse, by global norm", clipped_by(global, way)),
          sparse("sparse, by global norm, with decays", with_decays(global, way)),
          sparse("distributed, by global norm", clipped_by(global, way), {.is_distributed = true})};
}

struct Size {
  int trainers;
  const char* servers;
  bool sliced = true;
};
const Size kSizes[] = {{2, "a:1"},        {2, "a:1,b:1"},     {2, "a:1,b:1,c:1", false},
                       {3, "a:1", false}, {3, "a:1,b:1,c:1"}, {4, "a:1,b:1,c:1"}};

void expect_numbers_of_one_machine(Case with) {
  SCOPED_TRACE(with.name);
  with.batch = kBatchOfThree;
  const Trained expected = train_locally(with);
  EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 1)), 0);
  for (const Size& size : kSizes) {
    DistributeTranspilerConfig config;
    config.slice_var_up = size.sliced;
    EXPECT_LT(
        worst_difference(expected, train_in_cluster(with, size.trainers, config, size.servers)),
        2e-5)
        << size.trainers << " trainers, servers " << size.servers;
  }
  EXPECT_LT(worst_difference(expected, train_in_cluster(with, 2, background_sync())), 2e-5);
  // It clips: without, the numbers are others.
  const Case plain{with.name, with.build, sgd, with.feed, with.batch};
  EXPECT_GT(worst_difference(expected, train_locally(plain)), 1e-4);
}

TEST(Clip, OfAnOptimizerGivesTheNumbersOfOneMachineWithAllBatches) {
  for (const Case& with : clip_cases(Asked::of_optimizer)) expect_numbers_of_one_machine(with);
}

TEST(Clip, OfParametersGivesTheNumbersOfOneMachineWithAllBatches) {
  for (const Case& with : clip_cases(Asked::of_program)) expect_numbers_of_one_machine(with);
}

TEST(Clip, OfGroupsGivesTheNumbersOfOneMachineWithAllBatches) {
  expect_numbers_of_one_machine(deep("groups", clipped_by_groups));
}

// What is sent keeps its name, and what is clipped does.
TEST(Clip, AfterMemoryOptimizeGivesTheNumbersOfOneMachineWithAllBatches) {
  for (const Asked way : kWays) {
    const Minimize clipped = clipped_by(std::make_shared<GradientClipByGlobalNorm>(0.05), way);
    expect_numbers_of_one_machine(dense("memory_optimize", [=](Var& loss) {
      clipped(loss);
      memory_optimize(default_main_program(), {.level = 1, .skip_grads = true});
    }));
  }
}

// The first loss's gradients are clipped together, and so are the second's.
TEST(Clip, OfTwoLossesGivesTheNumbersOfOneMachineWithAllBatches) {
  const auto global = [](Var& loss) {
    optimizer::Sgd(0.1, {.grad_clip = std::make_shared<GradientClipByGlobalNorm>(0.02)})
        .minimize(loss);
  };
  Case with = dense("two losses", global);
  with.build = [=]() -> Var& {
    Var& x = layers::data("x", {128});
    Var& out = layers::fc(x, {.size = 160, .param_attr = seeded("w", 3), .bias_attr = "b"});
    global(layers::mean(out));
    return layers::mean(layers::square_error_cost(
        layers::reduce_sum(out, {.dim = {1}, .keep_dim = true}), layers::data("y", {1})));
  };
  expect_numbers_of_one_machine(with);
}

}  // namespace
}  // namespace trireme::testing
