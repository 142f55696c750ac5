// A bias and a relu behind a convolution become part of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

// A net of one convolution and what stands behind it, trained.
struct BiasNet {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  std::string loss, conv, out;

  template <class Behind>
  BiasNet(int channels, const layers::Conv2dOptions& made, const Behind& behind) {
    const UniqueNameGuard names;
    const ProgramGuard guard(main, startup);
    startup->set_seed(3);
    Var& x = layers::data("x", {channels, 9, 8});
    Var& mapped = layers::conv2d(x, made);
    Var& result = behind(mapped);
    Var& mean = layers::mean(layers::square(result));
    optimizer::Sgd(0.1f).minimize(mean);
    conv = mapped.name();
    out = result.name();
    loss = mean.name();
  }
  Graph graph(const std::vector<std::string>& fetches) const {
    LowerRequest request;
    const Var& x = main->global_block().var("x");
    request.feeds["x"] = {DType::float32, x.shape(), 0, VarType::lod_tensor};
    request.fetches = fetches;
    Graph graph = lower(*main, request);
    run_passes(graph, cpu_target(), {"assign_layout", "fuse_elementwise"});
    return graph;
  }
  int nodes(std::string_view type, const std::vector<std::string>& fetches) const {
    const Graph made = graph(fetches);
    return static_cast<int>(
        std::count_if(made.nodes.begin(), made.nodes.end(),
                      [&](const Node& node) { return node.schema->type() == type; }));
  }
};

Var& as_it_is(Var& x) { return x; }

TEST(FuseConvBias, LeavesNoSumAndNoRelu) {
  const BiasNet net(3, {.num_filters = 4, .filter_size = {3}, .act = "relu"}, as_it_is);
  EXPECT_EQ(net.nodes("p.add", {net.loss}), 0);
  EXPECT_EQ(net.nodes("p.max", {net.loss}), 0);
}

TEST(FuseConvBias, MarksTheReluInAFieldOfTheNode) {
  for (const bool relu : {true, false}) {
    const BiasNet net(3, {.num_filters = 4, .filter_size = {3}, .act = relu ? "relu" : ""},
                      as_it_is);
    const Graph graph = net.graph({net.loss});
    const auto conv = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
      return node.schema->type() == "conv2d";
    });
    ASSERT_NE(conv, graph.nodes.end());
    EXPECT_EQ(conv->decided.relu, relu);
  }
}

TEST(FuseConvBias, KeepsWhatSomebodySees) {
  const BiasNet net(3, {.num_filters = 4, .filter_size = {3}}, [](Var& sum) -> Var& {
    return layers::elementwise_mul(layers::relu(sum), sum);
  });
  EXPECT_EQ(net.nodes("p.add", {net.loss}), 1) << "two gradients meet; the bias is taken";
  EXPECT_EQ(net.nodes("p.max", {net.loss}), 1) << "the sum has a second reader";
  const BiasNet other(3, {.num_filters = 4, .filter_size = {3}, .act = "relu"}, as_it_is);
  EXPECT_EQ(other.nodes("p.max", {other.loss, "conv2d_0.tmp_1"}), 1) << "the sum is fetched";
  EXPECT_EQ(other.nodes("p.add", {other.loss, "conv2d_0.tmp_0"}), 1) << "the map is fetched";
}

// Several channel counts: whole vectors, a rest, fewer than a vector.
TEST(FuseConvBias, ChangesNoBit) {
  for (const int filters : {3, 20, 32, 50}) {
    for (const char* act : {"", "relu", "tanh"}) {
      for (const bool blocks : {true, false}) {
        const BiasNet net(16, {.num_filters = filters, .filter_size = {3}, .act = act}, as_it_is);
        std::vector<std::vector<Variable>> results;
        for (const bool fused : {true, false}) {
          Scope scope;
          Executor executor;
          RunOptions options{.scope = &scope, .threads = 2};
          if (!fused) options.passes_off.push_back("fuse_conv_bias");
          if (!blocks) options.passes_off.push_back("assign_layout");
          executor.run(*net.startup, {}, {}, {.scope = &scope});
          Draw draw(5);
          scope.find("conv2d_0.b_0")->tensor() = cast(draw.uniform({filters}), DType::float32);
          const Feeds feeds{{"x", cast(draw.uniform({5, 16, 9, 8}), DType::float32)}};
          executor.run(*net.main, feeds, {net.loss}, options);
          results.push_back(executor.run(*net.main, feeds, {net.out, net.loss}, options));
        }
        for (size_t i = 0; i < results[0].size(); ++i) {
          const Tensor &a = results[0][i].tensor(), &b = results[1][i].tensor();
          ASSERT_EQ(a.byte_size(), b.byte_size());
          EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.byte_size()), 0)
              << filters << " filters, act \"" << act << "\", blocks " << blocks;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing
