// Server programs of parameter-server mode: blocks, states, first values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ir/distributed.h"
#include "runtime/executor.h"
#include "tests/transpiler/nets.h"
#include "transpiler/sliced_files.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Transpiled {
  ClassicNet net;
  DistributeTranspiler transpiler;
  Transpiled(const Minimize& minimize, bool sync = true, int trainers = 2,
             const std::string& servers = kServers, DistributeTranspilerConfig config = {})
      : net(minimize), transpiler(config) {
    TranspileRequest request = net.request(0, trainers, servers);
    request.sync_mode = sync;
    transpiler.transpile(request);
  }
  std::string blocks(const std::string& endpoint) const {
    return blocks_of(*transpiler.get_pserver_programs(endpoint).first);
  }
  std::string startup(const std::string& endpoint) const {
    return types_of(*transpiler.get_pserver_programs(endpoint).second);
  }
};

Var& decayed() { return layers::exponential_decay(1.0, 100, 0.1, true); }
OptimizerOptions l2() { return {.regularization = std::make_shared<L2Decay>(0.1)}; }

TEST(Server, SyncMergesOneGradientPerTrainer) {
  Transpiled made(sgd);
  EXPECT_EQ(made.blocks(kEp0), "[listen_and_serv] [sum scale sgd] [sum scale sgd]");
  EXPECT_EQ(made.blocks(kEp1), "[listen_and_serv] [sum scale sgd]");
  EXPECT_EQ(made.startup(kEp0), "fill_constant fill_constant uniform_random");
  EXPECT_EQ(made.startup(kEp1), "fill_constant uniform_random");

  const auto [main, startup] = made.transpiler.get_pserver_programs(kEp0);
  const Op& serve = nth(*main, "listen_and_serv");
  EXPECT_THAT(serve.input("X"),
              ElementsAre("fc_b@GRAD.trainer_0", "fc_b@GRAD.trainer_1",
                          "fc_w@GRAD.block1.trainer_0", "fc_w@GRAD.block1.trainer_1"));
  EXPECT_EQ(serve.attr<std::string>("endpoint"), kEp0);
  EXPECT_EQ(serve.attr<int32_t>("pserver_id"), 0);
  EXPECT_EQ(serve.attr<int32_t>("Fanin"), 2);
  EXPECT_EQ(serve.attr<int32_t>("distributed_mode"), 0);
  EXPECT_THAT(serve.attr<BlockRefs>("optimize_blocks").indices, ElementsAre(1, 2));
  EXPECT_THAT(strings(serve, "grad_to_block_id"), ElementsAre("fc_b@GRAD:1", "fc_w@GRAD.block1:2"));
  EXPECT_EQ(serve.attr<int32_t>("lr_decay_block_id"), -1);
  EXPECT_EQ(serve.attr<int32_t>("checkpint_block_id"), -1);
  EXPECT_THAT(strings(serve, "sparse_grad_to_param"), IsEmpty());
  for (const char* name :
       {"rpc_get_thread_num", "rpc_send_thread_num", "rpc_prefetch_thread_num"}) {
    EXPECT_EQ(serve.attr<int32_t>(name), 12);
  }
  const Block& block = main->global_block();
  EXPECT_TRUE(block.var("fc_w.block1").persistable());
  EXPECT_EQ(block.var("fc_w.block1").shape(), (Shape{500, 1000}));
  EXPECT_TRUE(block.var("fc_w@GRAD.block1").persistable());
  EXPECT_FALSE(block.var("fc_w@GRAD.block1.trainer_0").persistable());
  EXPECT_EQ(ops_of(main->block(2)),
            "sum(fc_w@GRAD.block1.trainer_0, fc_w@GRAD.block1.trainer_1) -> fc_w@GRAD.block1; "
            "scale(fc_w@GRAD.block1) -> fc_w@GRAD.block1; "
            "sgd(fc_w@GRAD.block1, learning_rate_0, fc_w.block1) -> fc_w.block1");
  EXPECT_FLOAT_EQ(main->block(2).op(1).attr<float>("scale"), 0.5f);
  EXPECT_EQ(main->block(1).parent_index(), 0);
  EXPECT_EQ(main->block(2).parent_index(), 0);
  const Op& init = nth(*startup, "uniform_random");
  EXPECT_THAT(init.output("Out"), ElementsAre("fc_w.block1"));
  EXPECT_THAT(init.attr<std::vector<int64_t>>("shape"), ElementsAre(500, 1000));
  // The original startup program keeps its shapes.
  EXPECT_THAT(nth(*made.net.startup, "uniform_random").attr<std::vector<int64_t>>("shape"),
              ElementsAre(1000, 1000));
}

TEST(Server, AsyncUpdatesAsGradientsCome) {
  Transpiled made(sgd, false);
  EXPECT_EQ(made.blocks(kEp0), "[listen_and_serv] [sgd] [sgd]");
  const auto main = made.transpiler.get_pserver_program(kEp0);
  EXPECT_THAT(nth(*main, "listen_and_serv").input("X"),
              ElementsAre("fc_b@GRAD", "fc_w@GRAD.block1"));
}

TEST(Server, OneTrainerIsNotMerged) {
  Transpiled made(sgd, true, 1);
  EXPECT_EQ(made.blocks(kEp0), "[listen_and_serv] [sgd] [sgd]");
  const auto main = made.transpiler.get_pserver_program(kEp0);
  EXPECT_THAT(nth(*main, "listen_and_serv").input("X"),
              ElementsAre("fc_b@GRAD", "fc_w@GRAD.block1"));
}

TEST(Server, ServesOneThreeAndFour) {
  const std::string one = "10.0.0.1:1", three = "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1";
  EXPECT_EQ(Transpiled(sgd, true, 2, one).blocks(one),
            "[listen_and_serv] [sum scale sgd] [sum scale sgd]");
  Transpiled made(sgd, true, 2, three);
  EXPECT_EQ(made.blocks("10.0.0.1:1"), "[listen_and_serv] [sum scale sgd] [sum scale sgd]");
  EXPECT_EQ(made.blocks("10.0.0.2:1"), "[listen_and_serv] [sum scale sgd]");
  EXPECT_THAT(nth(*made.net.main, "split_byref").attr<std::vector<int32_t>>("sections"),
              ElementsAre(334, 334, 332));
  Transpiled four(sgd, true, 2, three + ",10.0.0.4:1");
  EXPECT_THAT(nth(*four.net.main, "split_byref").attr<std::vector<int32_t>>("sections"),
              ElementsAre(250, 250, 250, 250));
  EXPECT_THAT(strings(nth(*four.net.main, "send", 1), "epmap"),
              ElementsAre("10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.1:1"));
}

TEST(Server, ScheduleHasABlockOfItsOwn) {
  const auto decay = [](Var& loss) { optimizer::Sgd(decayed()).minimize(loss); };
  Transpiled made(decay);
  EXPECT_EQ(made.blocks(kEp0),
            "[listen_and_serv] [increment cast scale floor fill_constant elementwise_pow scale] "
            "[sum scale sgd] [sum scale sgd]");
  const auto main = made.transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(nth(*main, "listen_and_serv").attr<int32_t>("lr_decay_block_id"), 1);
  EXPECT_THAT(nth(*main, "listen_and_serv").attr<BlockRefs>("optimize_blocks").indices,
              ElementsAre(1, 2, 3));
  EXPECT_EQ(main->block(2).parent_index(), 1);
  EXPECT_EQ(main->block(3).parent_index(), 1);

  Transpiled async(decay, false);
  EXPECT_EQ(async.blocks(kEp0),
            "[listen_and_serv] [sum cast scale floor fill_constant elementwise_pow scale] [sgd] "
            "[sgd]");
  EXPECT_EQ(async.startup(kEp0),
            "fill_constant fill_constant fill_constant fill_constant uniform_random");
  const auto server = async.transpiler.get_pserver_program(kEp0);
  EXPECT_THAT(server->block(1).op(0).input("X"),
              ElementsAre("@LR_DECAY_COUNTER@.trainer_0", "@LR_DECAY_COUNTER@.trainer_1"));
}

TEST(Server, PiecewiseDecayBringsItsBranches) {
  Transpiled made([](Var& loss) {
    optimizer::Sgd(layers::piecewise_decay({100, 200}, {1, 0.5, 0.1})).minimize(loss);
  });
  EXPECT_EQ(made.blocks(kEp0),
            "[listen_and_serv] [increment cast fill_constant fill_constant less_than logical_not "
            "conditional_block fill_constant fill_constant less_than logical_not logical_and "
            "logical_and conditional_block fill_constant conditional_block] [assign] [assign] "
            "[assign] [sum scale sgd] [sum scale sgd]");
  const auto main = made.transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(main->block(1).op(6).sub_block(), &main->block(2));
  EXPECT_EQ(main->block(5).parent_index(), 4);
}

TEST(Server, DecayThenOptimizerPerBlock) {
  Transpiled adam([](Var& loss) { optimizer::Adam(0.1, {}, l2()).minimize(loss); });
  EXPECT_EQ(adam.blocks(kEp1), "[listen_and_serv] [sum scale scale sum adam]");
  const auto server = adam.transpiler.get_pserver_program(kEp1);
  EXPECT_EQ(server->global_block().var("fc_w_moment1_0").shape(), (Shape{500, 1000}));
  EXPECT_EQ(server->global_block().var("fc_w_beta1_pow_acc_0").shape(), (Shape{1}));
  Transpiled momentum([](Var& loss) {
    optimizer::Momentum(layers::piecewise_decay({1, 2, 3, 4}, {1, 2, 3, 4, 5}), 0.9, false, l2())
        .minimize(loss);
  });
  const auto main = momentum.transpiler.get_pserver_program(kEp0);
  ASSERT_EQ(main->num_blocks(), 9u);
  EXPECT_EQ(types_of(main->block(7)), "sum scale scale sum momentum");
  EXPECT_EQ(types_of(main->block(8)), "sum scale scale sum momentum");
}

TEST(Server, RmsPropSlicesWhatIsShapedLikeTheParameter) {
  Transpiled made([](Var& loss) { optimizer::RmsProp(0.1).minimize(loss); });
  EXPECT_EQ(made.blocks(kEp1), "[listen_and_serv] [sum scale rmsprop]");
  const auto main = made.transpiler.get_pserver_program(kEp1);
  EXPECT_EQ(main->global_block().var("fc_w_momentum_0").shape(), (Shape{500, 1000}));
  EXPECT_EQ(main->global_block().var("fc_w_mean_square_0").shape(), (Shape{500, 1000}));
}

TEST(Server, EveryOptimizerMoves) {
  const std::vector<std::pair<std::string, Minimize>> optimizers = {
      {"momentum", [](Var& l) { optimizer::Momentum(0.1, 0.9).minimize(l); }},
      {"adagrad", [](Var& l) { optimizer::Adagrad(0.1).minimize(l); }},
      {"decayed_adagrad", [](Var& l) { optimizer::DecayedAdagrad(0.1).minimize(l); }},
      {"adadelta", [](Var& l) { optimizer::Adadelta(0.1).minimize(l); }},
      {"adam", [](Var& l) { optimizer::Adam(0.1).minimize(l); }},
      {"adamax scale", [](Var& l) { optimizer::Adamax(0.1).minimize(l); }},
      {"rmsprop", [](Var& l) { optimizer::RmsProp(0.1).minimize(l); }},
      {"ftrl", [](Var& l) { optimizer::Ftrl(0.1).minimize(l); }},
      {"lars_momentum", [](Var& l) { optimizer::LarsMomentum(0.1, 0.9).minimize(l); }},
      {"lamb", [](Var& l) { optimizer::Lamb(0.1).minimize(l); }},
      {"dpsgd", [](Var& l) { optimizer::Dpsgd(0.1).minimize(l); }}};
  for (const auto& [type, minimize] : optimizers) {
    Transpiled made(minimize);
    std::string all;
    for (const std::string& endpoint : {kEp0, kEp1}) {
      const auto [main, startup] = made.transpiler.get_pserver_programs(endpoint);
      for (size_t b = 1; b < main->num_blocks(); ++b) {
        EXPECT_EQ(types_of(main->block(static_cast<int>(b))), "sum scale " + type);
        // Every state that an update reads has a first value.
        for (const Op* op : main->block(static_cast<int>(b)).ops()) {
          for (const std::string& name : op->input_names()) {
            const Var* var = main->global_block().find_var(name);
            if (!var || !var->persistable() || name.find("@GRAD") != std::string::npos) continue;
            bool filled = false;
            for (const Op* init : startup->global_block().ops()) {
              filled |= init->output_names().front() == name;
            }
            EXPECT_TRUE(filled) << name;
          }
        }
      }
    }
  }
}

TEST(Server, UpdatesThatTakeNormsAreNotCut) {
  Transpiled made([](Var& loss) { optimizer::LarsMomentum(0.1, 0.9).minimize(loss); });
  EXPECT_EQ(made.blocks(kEp0), "[listen_and_serv] [sum scale lars_momentum]");
  EXPECT_EQ(made.blocks(kEp1), "[listen_and_serv] [sum scale lars_momentum]");
}

TEST(Server, WithoutParametersHasAnEmptyBlock) {
  FreshPrograms fresh;
  Var& x = layers::data("x", {10});
  sgd(layers::mean(layers::fc(x, {.size = 5, .bias_attr = false})));
  DistributeTranspilerConfig config;
  config.slice_var_up = false;
  DistributeTranspiler transpiler(config);
  transpiler.transpile({.program = fresh.main,
                        .startup_program = fresh.startup,
                        .pservers = kServers,
                        .trainers = 2});
  EXPECT_EQ(blocks_of(*transpiler.get_pserver_program(kEp1)), "[listen_and_serv] []");
}

TEST(Server, OwnLearningRatesAreComputedThere) {
  FreshPrograms fresh;
  Var& x = layers::data("x", {10});
  sgd(layers::mean(layers::fc(
      x,
      {.size = 5, .param_attr = ParamAttr{.name = "w", .learning_rate = 2}, .bias_attr = false})));
  DistributeTranspiler transpiler;
  transpiler.transpile(
      {.program = fresh.main, .startup_program = fresh.startup, .pservers = kEp0, .trainers = 2});
  EXPECT_EQ(blocks_of(*transpiler.get_pserver_program(kEp0)),
            "[listen_and_serv] [scale] [sum scale sgd]");
}

TEST(Server, SeveralLossesUpdateOneAfterAnother) {
  FreshPrograms fresh;
  Var& x = layers::data("x", {10});
  Var& out = layers::fc(x, {.size = 5, .param_attr = "w", .bias_attr = false});
  optimizer::Sgd(0.1).minimize(layers::mean(out));
  optimizer::Sgd(0.2).minimize(layers::mean(layers::square(out)));
  DistributeTranspiler transpiler;
  transpiler.transpile(
      {.program = fresh.main, .startup_program = fresh.startup, .pservers = kEp0, .trainers = 2});
  const auto server = transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(blocks_of(*server), "[listen_and_serv] [sum scale sgd] [sum scale sgd]");
  EXPECT_EQ(server->block(2).parent_index(), 1);  // not beside the first
  int sends = 0, recvs = 0;
  for (const Op* op : fresh.main->global_block().ops()) {
    sends += op->type() == "send";
    recvs += op->type() == "recv";
  }
  EXPECT_EQ(sends, 2);
  EXPECT_EQ(recvs, 1);
}

TEST(Server, DelaysAreCompensated) {
  DistributeTranspilerConfig config;
  config.enable_dc_asgd = true;
  Transpiled made(sgd, false, 2, kServers, config);
  const auto [main, startup] = made.transpiler.get_pserver_programs(kEp1);
  EXPECT_EQ(blocks_of(*main),
            "[listen_and_serv] [ref_by_trainer_id elementwise_sub elementwise_mul elementwise_mul "
            "elementwise_add sgd]");
  EXPECT_EQ(types_of(*startup), "fill_constant uniform_random assign assign");
  EXPECT_TRUE(nth(*main, "listen_and_serv").attr<bool>("dc_asgd"));
  EXPECT_THAT(main->block(1).op(0).input("X"),
              ElementsAre("fc_w.block0.trainer_0_bak", "fc_w.block0.trainer_1_bak"));
}

TEST(Server, TwoSlicesOnOneServerKeepTheirStatesApart) {
  DistributeTranspilerConfig config;
  config.split_method = [](Strings eps) {
    struct First : PsDispatcher {
      using PsDispatcher::PsDispatcher;
      Strings dispatch(const std::vector<PlacedVar>& vars) override {
        return Strings(vars.size(), eps()[0]);
      }
    };
    return std::make_unique<First>(std::move(eps));
  };
  Transpiled made([](Var& loss) { optimizer::Adam(0.1).minimize(loss); }, true, 2, kServers,
                  config);
  const auto main = made.transpiler.get_pserver_program(kEp0);
  EXPECT_NE(main->global_block().find_var("fc_w_moment1_0.block0"), nullptr);
  EXPECT_NE(main->global_block().find_var("fc_w_beta1_pow_acc_0.block1"), nullptr);
  EXPECT_EQ(main->global_block().find_var("fc_w_moment1_0"), nullptr);
}

TEST(Server, PrintLogSaysWhatEachServerKeeps) {
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.print_log = true;
  Strings lines;
  TranspileRequest request = net.request();
  request.print = [&](const std::string& line) { lines.push_back(line); };
  DistributeTranspiler(config).transpile(request);
  EXPECT_THAT(lines, ElementsAre(kEp0 + ": 2 blocks, 2004000 bytes, 50.0%",
                                 kEp1 + ": 1 block, 2000000 bytes, 50.0%"));
}

// ---- first values

Tensor value_of(const Scope& scope, const std::string& name) { return scope.find(name)->tensor(); }

TEST(Server, SlicesStartAsRowsOfTheWhole) {
  for (const bool from_array : {false, true}) {
    const auto build = [&] {
      Var& x = layers::data("x", {16});
      ParamAttr attr{.name = "w"};
      if (from_array) {
        std::vector<float> values(16 * 2048);
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
        attr.initializer = std::make_shared<initializer::FromTensor>(
            make_tensor<float>({16, 2048}, std::span<const float>(values)));
      } else {
        attr.initializer = std::make_shared<initializer::Uniform>(
            initializer::UniformOptions{.low = -1, .high = 1, .seed = 7});
      }
      sgd(layers::mean(layers::fc(x, {.size = 2048, .param_attr = attr, .bias_attr = false})));
    };
    Executor executor;
    Scope local;
    {
      FreshPrograms fresh;
      build();
      executor.run(*fresh.startup, {}, {}, {.scope = &local});
    }
    FreshPrograms fresh;
    build();
    DistributeTranspiler transpiler;
    transpiler.transpile({.program = fresh.main,
                          .startup_program = fresh.startup,
                          .pservers = kServers,
                          .trainers = 2});
    const float* whole = value_of(local, "w").data<float>();
    for (const PlacedParam& param : transpiler.placement().params) {
      ASSERT_EQ(param.slices.size(), 2u);
      for (const Slice& slice : param.slices) {
        Scope scope;
        executor.run(*transpiler.get_pserver_programs(slice.endpoint).second, {}, {},
                     {.scope = &scope});
        const Tensor held = value_of(scope, slice.name);
        EXPECT_EQ(held.shape(), slice.shape);
        EXPECT_EQ(std::memcmp(held.address(), whole + slice.offset, held.byte_size()), 0)
            << slice.name;
      }
    }
  }
}

// ---- files of whole variables

TEST(SlicedFiles, SavesStatesAndLoadsSlices) {
  Transpiled made([](Var& loss) { optimizer::Adam(0.1).minimize(loss); });
  const auto save = sliced_save_program(*made.net.main, "dir");
  const Op& moment = [&]() -> const Op& {
    for (const Op* op : save->global_block().ops()) {
      if (op->attr<std::string>("file_path") == "dir/fc_w_moment1_0") return *op;
    }
    throw InternalError("no such file");
  }();
  EXPECT_EQ(moment.type(), "recv_save");
  EXPECT_THAT(moment.attr<std::vector<int64_t>>("shape"), ElementsAre(1000, 1000));
  EXPECT_THAT(strings(moment, "slice_shapes"), ElementsAre("500,1000", "500,1000"));
  EXPECT_THAT(strings(moment, "endpoints"), ElementsAre(kEp1, kEp0));
  EXPECT_THAT(strings(moment, "remote_varnames"), ElementsAre("fc_w_moment1_0", "fc_w_moment1_0"));

  const auto load = sliced_load_program(*made.transpiler.get_pserver_program(kEp0), "dir");
  const Op* weight = nullptr;
  for (const Op* op : load->global_block().ops()) {
    if (op->output("Out").front() == "fc_w.block1") weight = op;
  }
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->attr<std::string>("file_path"), "dir/fc_w");
  EXPECT_EQ(weight->attr<int64_t>("seek"), 500000);
  EXPECT_THAT(weight->attr<std::vector<int64_t>>("shape"), ElementsAre(500, 1000));
}

TEST(SlicedFiles, AreLoadedByServersOnly) {
  ClassicNet net;
  DistributeTranspiler transpiler;
  TranspileRequest request = net.request();
  request.current_endpoint = "10.0.0.9:1";
  transpiler.transpile(request);
  EXPECT_THAT(error_of([&] { sliced_load_program(*net.main, "dir"); }),
              HasSubstr("current_endpoint is '10.0.0.9:1', which is not among pservers " +
                        std::string(kServers)));
  EXPECT_THAT(error_of([&] { sliced_load_program(*Program::create(), "dir"); }),
              HasSubstr("was not made for parameter servers"));
}

TEST(SlicedFiles, RecordsAddUp) {
  Transpiled made([](Var& loss) { optimizer::Adam(0.1).minimize(loss); });
  std::map<std::string, int64_t> elements;
  for (const VarSlice& slice : made.net.main->distributed->slices) {
    if (slice.origin.name == "fc_w_moment2_0") {
      EXPECT_EQ(name_of(slice.use), "Optimizer");
      EXPECT_TRUE(slice.is_slice);
      elements[slice.endpoint] += slice.slice.shape.count();
    }
  }
  EXPECT_EQ(elements, (std::map<std::string, int64_t>{{kEp0, 500000}, {kEp1, 500000}}));
}

}  // namespace
}  // namespace trireme::testing
