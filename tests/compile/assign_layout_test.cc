// Images in blocks give the numbers of plain ones, and stand where they should.
#include <gtest/gtest.h>

#include <cmath>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/check_passes.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

Var& conv_bn(Var& x, int filters, int size, int stride, const char* act) {
  Var& conv = layers::conv2d(x, {.num_filters = filters,
                                 .filter_size = {size},
                                 .stride = {stride},
                                 .padding = {(size - 1) / 2},
                                 .bias_attr = false});
  return layers::batch_norm(conv, {.act = act});
}

// A stem, a block with a shortcut, pooling of both kinds: a small residual net.
Var& residual_net(Var& x) {
  Var& stem = layers::pool2d(
      conv_bn(x, 16, 3, 1, "relu"),
      {.pool_size = {3}, .pool_type = "max", .pool_stride = {2}, .pool_padding = {1}});
  Var& body = conv_bn(conv_bn(stem, 24, 3, 2, "relu"), 32, 1, 1, "");
  Var& joined = layers::relu(layers::elementwise_add(body, conv_bn(stem, 32, 1, 2, "")));
  return layers::pool2d(joined, {.pool_type = "avg", .global_pooling = true});
}

// Channels that fill no vector, biases, a result that a plain op reads.
Var& plain_net(Var& x) {
  Var& first = layers::conv2d(x, {.num_filters = 20, .filter_size = {5}, .act = "relu"});
  Var& pooled = layers::pool2d(first, {.pool_size = {2}, .pool_type = "max", .pool_stride = {2}});
  Var& second = layers::conv2d(pooled, {.num_filters = 50, .filter_size = {3}, .act = "tanh"});
  Var& thinned = layers::dropout(second, {.dropout_prob = 0.3});
  return layers::pool2d(thinned, {.pool_size = {2}, .pool_type = "avg", .pool_stride = {1}});
}

struct Net {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  std::string loss;
  explicit Net(Var& (*body)(Var&)) {
    const UniqueNameGuard names;
    ProgramGuard guard(main, startup);
    startup->set_seed(7);
    main->set_seed(7);
    Var& x = layers::data("x", {3, 13, 12});
    Var& y = layers::data("y", {1}, {.dtype = DType::int64});
    Var& out = layers::fc(body(x), {.size = 4, .act = "softmax"});
    Var& mean = layers::mean(layers::cross_entropy(out, y));
    optimizer::Momentum(0.01f, 0.9f).minimize(mean);
    loss = mean.name();
  }
  Feeds feeds(int64_t batch) const {
    Draw draw(4);
    return {{"x", cast(draw.uniform({batch, 3, 13, 12}), DType::float32)},
            {"y", draw.ints({batch, 1}, 0, 3)}};
  }
};

class AssignLayout : public ::testing::TestWithParam<Var& (*)(Var&)> {};

TEST_P(AssignLayout, GivesTheNumbersOfPlainImages) {
  const Net net(GetParam());
  Scope scope;
  Executor executor;
  executor.run(*net.startup, {}, {}, {.scope = &scope});
  for (const int64_t batch : {8, 5, 1}) {
    for (const PassCheck& check : check_passes(*net.main, net.feeds(batch), scope, 2e-5)) {
      EXPECT_TRUE(check.equal()) << "batch " << batch << ": " << to_text({check});
    }
  }
}

TEST_P(AssignLayout, TrainsToTheSameLossWithAndWithout) {
  const Net net(GetParam());
  std::vector<float> losses;
  for (const bool on : {true, false}) {
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    RunOptions options{.scope = &scope};
    if (!on) options.passes_off = {"assign_layout"};
    float last = 0;
    for (int step = 0; step < 5; ++step) {
      last = *executor.run(*net.main, net.feeds(6), {net.loss}, options)[0].tensor().data<float>();
    }
    losses.push_back(last);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-4 * std::fabs(losses[1]));
}

// An empty batch and other sizes that the library turns down go through plain copies.
TEST_P(AssignLayout, TakesAnEmptyBatch) {
  const Net net(GetParam());
  const auto test = clone(*net.main, true);
  Scope scope;
  Executor executor;
  executor.run(*net.startup, {}, {}, {.scope = &scope});
  const Var* last = nullptr;
  for (const Op* op : test->global_block().ops()) {
    if (op->type() == "pool2d") last = test->global_block().find_var(op->output("Out")[0]);
  }
  const Tensor out = executor.run_one(*test, net.feeds(0), last->name(), {.scope = &scope});
  EXPECT_EQ(out.shape().at(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Nets, AssignLayout, ::testing::Values(residual_net, plain_net));

size_t layout_nodes(const Graph& graph, std::string_view type) {
  size_t count = 0;
  for (const Node& node : graph.nodes) count += node.schema->type() == type;
  return count;
}

// A residual net's graph as compiled for some machine, which need not be this one.
Graph compiled_for(const Target& target) {
  const Net net(residual_net);
  LowerRequest request;
  request.feeds["x"] = {.shape = {Dim(), 3, 13, 12}};
  request.feeds["y"] = {.dtype = DType::int64, .shape = {Dim(), 1}};
  request.fetches = {net.loss};
  Graph graph = lower(*net.main, request);
  run_passes(graph, target, {"fuse_elementwise"});
  return graph;
}

// Only what enters and leaves the net is moved: the operands of the last product, and what
// arrives for them.
TEST(AssignLayoutGraph, KeepsBlocksThroughAResidualNet) {
  const Graph graph = compiled_for({.lanes = 16, .blocked_images = true});
  EXPECT_EQ(layout_nodes(graph, "p.from_blocks"), 1u) << graph.to_text();
  EXPECT_EQ(layout_nodes(graph, "p.to_blocks"), 1u) << graph.to_text();
}

TEST(AssignLayoutGraph, TakesTheBlockFromTheTarget) {
  for (const int lanes : {4, 8, 16}) {
    const Graph graph = compiled_for({.lanes = lanes, .blocked_images = true});
    for (const Node& node : graph.nodes) {
      if (node.schema->type() != "conv2d") continue;
      const Shape& map = graph.info(node.outs[0]).shape;
      ASSERT_EQ(map.rank(), 5) << graph.to_text();
      const int64_t channels = map.at(1) * map.at(4);
      EXPECT_EQ(node.decided.blocks.map, map.at(4));
      EXPECT_FALSE(node.attrs->contains("channel_blocks")) << "what passes decide is no attribute";
      EXPECT_EQ(map.at(4), channels % lanes == 0 ? lanes : channels);
    }
  }
}

TEST(AssignLayoutGraph, LeavesImagesPlainForATargetThatWorksOnPlainOnes) {
  const Graph graph = compiled_for({.lanes = 16, .blocked_images = false});
  EXPECT_EQ(layout_nodes(graph, "p.from_blocks"), 0u);
  EXPECT_EQ(layout_nodes(graph, "p.to_blocks"), 0u);
}

}  // namespace
}  // namespace trireme::testing
