// Properties of placements, for random nets on 1 to 64 servers: every element of every parameter
// and of every state is on one server, sections add up, gradients go where their parameters are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/distributed.h"
#include "tests/support/seed.h"
#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

using Draw = std::mt19937;

int between(Draw& draw, int low, int high) {
  return low + static_cast<int>(draw() % static_cast<unsigned>(high - low + 1));
}

// Layers, convolutions and tables of random sizes, one of the optimizers, with or without a clip, a
// weight decay and a schedule.
struct RandomNet : FreshPrograms {
  explicit RandomNet(Draw& draw) {
    Var* hidden = &layers::data("x", {between(draw, 1, 400)});
    if (draw() % 3 == 0) {
      Var& image = layers::data("image", {3, 8, 8});
      hidden = &layers::conv2d(
          image, {.num_filters = between(draw, 1, 80), .filter_size = between(draw, 1, 3)});
    }
    const int depth = between(draw, 1, 4);
    for (int i = 0; i < depth; ++i) {
      hidden = &layers::fc(*hidden, {.size = between(draw, 1, 700)});
    }
    Var* loss = &layers::mean(*hidden);
    const int tables = between(draw, 0, 2);
    for (int t = 0; t < tables; ++t) {
      Var& ids = layers::data(cat("ids", t), {1}, {.dtype = DType::int64});
      Var& row = layers::embedding(ids, {.size = {between(draw, 1, 3000), between(draw, 1, 40)},
                                         .is_sparse = true,
                                         .is_distributed = draw() % 2 == 0});
      loss = &layers::elementwise_add(*loss, layers::mean(row));
    }
    minimize(draw, *loss);
  }

  static void minimize(Draw& draw, Var& loss) {
    OptimizerOptions options;
    if (draw() % 3 == 0) options.regularization = std::make_shared<L2Decay>(0.1);
    switch (draw() % 6) {
      case 0:
        options.grad_clip = std::make_shared<GradientClipByGlobalNorm>(1);
        break;
      case 1:
        options.grad_clip = std::make_shared<GradientClipByValue>(1);
        break;
      case 2:
        set_gradient_clip(std::make_shared<GradientClipByValue>(1));
        break;
      case 3:
        set_gradient_clip(std::make_shared<GradientClipByGlobalNorm>(1));
        break;
      case 4:
        set_gradient_clip(std::make_shared<GradientClipByNorm>(1));
        break;
      default:
        break;
    }
    Hyper rate = 0.1;
    if (draw() % 3 == 0) rate = Hyper(layers::piecewise_decay({1, 2}, {1, 0.5, 0.1}));
    switch (draw() % 5) {
      case 0:
        optimizer::Adam(rate, {}, options).minimize(loss);
        break;
      case 1:
        optimizer::Momentum(rate, 0.9, false, options).minimize(loss);
        break;
      case 2:
        optimizer::Adagrad(rate, 1e-6, 0, options).minimize(loss);
        break;
      case 3:
        optimizer::RmsProp(rate, {}, options).minimize(loss);
        break;
      default:
        optimizer::Sgd(rate, options).minimize(loss);
    }
  }
};

using Counts = std::map<std::string, int64_t>;

// Which servers the slices of a parameter go to, and where they come from.
struct Routes {
  std::map<std::string, Strings> to, from;
  explicit Routes(const Program& trainer) {
    for (const Op* op : trainer.global_block().ops()) {
      if (op->type() == "split_byref") {
        int64_t rows = 0;
        for (const int32_t section : op->attr<std::vector<int32_t>>("sections")) rows += section;
        EXPECT_EQ(rows, trainer.global_block().var(op->input("X").front()).shape().at(0));
      }
      if (op->type() == "distributed_lookup_table") {
        from[op->input("W").front()] = strings(*op, "endpoints");
      }
      const Strings vars = op->attr_or<Strings>("op_role_var", {});
      if (vars.size() < 2 || vars[0] == vars[1]) continue;
      if (op->type() == "send") to[vars[0]] = strings(*op, "epmap");
      if (op->type() == "recv") from[vars[0]] = strings(*op, "epmap");
    }
  }
};

std::vector<const Slice*> slices_of(const DistributeTranspiler& transpiler,
                                    const std::string& endpoint) {
  std::vector<const Slice*> slices;
  for (const PlacedParam& param : transpiler.placement().params) {
    for (const Slice& slice : param.slices) {
      if (slice.endpoint == endpoint) slices.push_back(&slice);
    }
  }
  return slices;
}

TEST(Placement, EveryElementOfEveryParameterIsOnOneServer) {
  Draw draw(static_cast<uint32_t>(test_seed()));
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    RandomNet net(draw);
    Counts whole;
    for (const Var* param : net.main->parameters()) whole[param->name()] = param->shape().count();
    Strings servers;
    const int count = i % 8 == 0 ? 64 : between(draw, 1, 64);
    for (int s = 0; s < count; ++s) servers.push_back(cat("10.0.0.", s, ":6174"));
    DistributeTranspilerConfig config;
    if (draw() % 3 == 0) {
      config.split_method = [](Strings eps) { return std::make_unique<HashName>(std::move(eps)); };
    }
    config.slice_var_up = draw() % 4 != 0;
    DistributeTranspiler transpiler(config);
    transpiler.transpile({.trainer_id = 0,
                          .program = net.main,
                          .startup_program = net.startup,
                          .pservers = join(servers, ","),
                          .trainers = between(draw, 1, 5),
                          .sync_mode = draw() % 2 == 0});
    Counts placed;
    for (const PlacedParam& param : transpiler.placement().params) {
      int64_t next = 0, rows = 0;
      for (const Slice& slice : param.slices) {
        EXPECT_EQ(slice.offset, next);
        EXPECT_EQ(slice.shape.count(), slice.size);
        next += slice.size;
      }
      for (const int64_t r : param.rows()) rows += r;
      EXPECT_EQ(rows, param.shape.at(0));
      placed[param.name] = next;
    }
    EXPECT_EQ(placed, whole);

    const Routes routes(*net.main);
    EXPECT_EQ(routes.to, routes.from);
    EXPECT_EQ(routes.to.size(), whole.size());

    // States that are cut add up to the parameter too; the others are whole wherever they are.
    Counts states, state_whole;
    for (const VarSlice& slice : net.main->distributed->slices) {
      if (slice.use != VarSlice::Use::optimizer || !slice.is_slice) continue;
      states[slice.origin.name] += slice.slice.shape.count();
      state_whole[slice.origin.name] = slice.origin.shape.count();
    }
    EXPECT_EQ(states, state_whole);

    // What the servers hold, counted from their programs; all of it has a first value.
    Counts held;
    for (const std::string& endpoint : servers) {
      const auto [main, startup] = transpiler.get_pserver_programs(endpoint);
      std::set<std::string> filled;
      for (const Op* op : startup->global_block().ops()) {
        for (const std::string& name : op->output_names()) filled.insert(name);
      }
      for (const Slice* slice : slices_of(transpiler, endpoint)) {
        EXPECT_TRUE(main->global_block().var(slice->name).persistable());
        EXPECT_TRUE(filled.contains(slice->name)) << slice->name;
        const std::string& name = slice->name;
        held[name.substr(0, name.find(".block"))] += main->global_block().var(name).shape().count();
      }
    }
    EXPECT_EQ(held, whole);
  }
}

}  // namespace
}  // namespace trireme::testing
