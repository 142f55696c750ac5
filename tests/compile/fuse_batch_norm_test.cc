// fuse_batch_norm: what it makes one node of, what it leaves, and that no bit changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "compile/equal_shapes.h"
#include "compile/lower.h"
#include "compile/pipeline.h"
#include "core/flags.h"
#include "core/text.h"
#include "ir/backward.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/check_passes.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kNormPass = {"fuse_batch_norm"};

struct NormNet {
  using Body = std::function<Var&(Var&)>;

  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  Shape image;  // of one sample
  std::string out, loss;
  std::vector<std::string> fetches;  // the loss and every parameter's gradient
  bool trains;

  NormNet(const Shape& image, const Body& body, bool trains = true) : image(image), trains(trains) {
    const UniqueNameGuard names;
    ProgramGuard guard(main, startup);
    startup->set_seed(3);
    Var& x = layers::data("x", image.to_vector());
    Var& y = body(x);
    out = y.name();
    // Not a plain mean: what arrives at y is to differ from element to element.
    Var& mean = layers::mean(layers::square(layers::scale(y, {.scale = 0.7, .bias = -0.3})));
    loss = mean.name();
    fetches = {loss};
    if (!trains) return;
    for (const auto& [parameter, grad] : append_backward(mean)) fetches.push_back(grad->name());
  }

  Graph passed(const std::vector<std::string>& fetched, std::vector<std::string> off = {}) const {
    LowerRequest request{.fetches = fetched};
    Shape fed = image;
    fed.insert(0, Dim());
    request.feeds["x"] = {.shape = fed};
    Graph graph = lower(*main, request);
    off.emplace_back("fuse_elementwise");
    run_passes(graph, cpu_target(), off);
    return graph;
  }

  Feeds feeds(int64_t batch, uint64_t seed) const {
    Shape fed = image;
    fed.insert(0, batch);
    return {{"x", cast(Draw(seed).uniform(fed), DType::float32)}};
  }

  // What is fetched, then the statistics that were kept.
  std::vector<Tensor> run(const Feeds& feeds, int threads, std::vector<std::string> off) const {
    Scope scope;
    Executor executor;
    executor.run(*startup, {}, {}, {.scope = &scope});
    std::vector<Tensor> results;
    for (const Variable& value :
         executor.run(*main, feeds, fetches,
                      {.scope = &scope, .threads = threads, .cut_bytes = 0, .passes_off = off})) {
      results.push_back(value.tensor().clone());
    }
    for (const std::string& name : scope.names()) results.push_back(scope.find(name)->tensor());
    return results;
  }
};

size_t nodes_of(const Graph& graph, std::string_view type) {
  size_t count = 0;
  for (const Node& node : graph.nodes) count += node.schema->type() == type;
  return count;
}

const Node& first_of(const Graph& graph, std::string_view type) {
  for (const Node& node : graph.nodes) {
    if (node.schema->type() == type) return node;
  }
  throw InternalError("there is no " + std::string(type));
}

std::string output_of(const NormNet& net, std::string_view type, std::string_view slot) {
  for (const Op* op : net.main->global_block().ops()) {
    if (op->type() == type) return op->output(slot)[0];
  }
  throw InternalError("there is no op " + std::string(type));
}

Var& conv(Var& x, int filters) {
  return layers::conv2d(
      x, {.num_filters = filters, .filter_size = {3}, .padding = {1}, .bias_attr = false});
}
Var& norm(Var& x, const char* act = "") { return layers::batch_norm(x, {.act = act}); }
Var& joined(Var& a, Var& b) { return layers::relu(layers::elementwise_add(a, b)); }

// ---- what becomes one node

Var& one_layer(Var& x) { return conv(norm(conv(x, 16), "relu"), 4); }

TEST(FuseBatchNorm, TakesReluAlongForwardsAndBackwards) {
  const NormNet net({3, 6, 5}, one_layer);
  const Graph graph = net.passed(net.fetches);
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu"), 1u);
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu_grad"), 1u);
  for (const char* gone : {"batch_norm", "batch_norm_grad", "p.max", "p.gt", "p.select"}) {
    EXPECT_EQ(nodes_of(graph, gone), 0u) << gone << "\n" << graph.to_text();
  }
  const Node& grad = first_of(graph, "p.batch_norm_relu_grad");
  EXPECT_EQ(grad.in_counts, (std::vector<int>{1, 1, 1, 1, 1, 0, 1}));  // no result is read
  EXPECT_EQ(grad.outs.back(), -1);                                     // nor a masked image written
  EXPECT_EQ(grad.origin->op_type, "relu_grad+batch_norm_grad");
  EXPECT_EQ(first_of(graph, "p.batch_norm_relu").origin->op_type, "batch_norm+relu");
}

// Two blocks: a shortcut through a convolution, then a plain one.
Var& residual(Var& x) {
  Var& stem = norm(conv(x, 16), "relu");
  Var& first = joined(norm(conv(stem, 16)), norm(conv(stem, 16)));
  return conv(joined(norm(conv(first, 16)), first), 4);
}

TEST(FuseBatchNorm, TakesASumAlongForwardsAndBackwards) {
  const NormNet net({3, 6, 5}, residual);
  for (const bool blocks : {true, false}) {
    const Graph graph = net.passed(net.fetches, blocks ? std::vector<std::string>{}
                                                       : std::vector<std::string>{"assign_layout"});
    EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu"), 3u) << graph.to_text();
    EXPECT_EQ(nodes_of(graph, "batch_norm"), 1u);  // the other way into the first sum
    EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu_grad"), 3u);
    EXPECT_EQ(nodes_of(graph, "batch_norm_grad"), 1u);
    for (const char* gone : {"p.max", "p.gt", "p.select"}) EXPECT_EQ(nodes_of(graph, gone), 0u);
    std::vector<std::string> names;
    for (const Node& node : graph.nodes) {
      if (node.schema->type() == "p.batch_norm_relu_grad") names.push_back(node.origin->op_type);
    }
    // The stem's result is read by two convolutions; the first block's by one and the second sum.
    EXPECT_EQ(names, (std::vector<std::string>{"relu_grad+batch_norm_grad",
                                               "sum+relu_grad+batch_norm_grad",
                                               "sum+relu_grad+batch_norm_grad"}));
  }
}

TEST(FuseBatchNorm, ResultsThatAreFetchedStayResults) {
  const NormNet net({3, 6, 5}, one_layer);
  const std::string result = output_of(net, "relu", "Out");
  std::vector<std::string> fetches = net.fetches;
  fetches.insert(fetches.end(), {result, grad_name(result)});
  const Graph graph = net.passed(fetches);
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu"), 1u);
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu_grad"), 1u);
}

// ---- what stays as it is

TEST(FuseBatchNorm, LeavesWhatIsFetchedBetween) {
  const NormNet net({3, 6, 5}, one_layer);
  std::vector<std::string> fetches = net.fetches;
  fetches.push_back(output_of(net, "batch_norm", "Y"));
  const Graph graph = net.passed(fetches);
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu"), 0u);
  EXPECT_EQ(nodes_of(graph, "batch_norm"), 1u);
  // Backwards nothing is hidden: relu's result says what passed.
  const Node& grad = first_of(graph, "p.batch_norm_relu_grad");
  EXPECT_EQ(grad.in_counts, (std::vector<int>{1, 1, 1, 1, 1, 1, 1}));
}

TEST(FuseBatchNorm, WritesAMaskedGradientThatIsFetched) {
  const NormNet net({3, 6, 5}, one_layer);
  std::vector<std::string> fetches = net.fetches;
  fetches.push_back(grad_name(output_of(net, "batch_norm", "Y")));
  const Graph graph = net.passed(fetches);
  EXPECT_GE(first_of(graph, "p.batch_norm_relu_grad").outs.back(), 0);
}

TEST(FuseBatchNorm, LeavesWhatSomebodyElseReads) {
  const NormNet net({3, 6, 5}, [](Var& x) -> Var& {
    Var& y = norm(conv(x, 16));
    return layers::elementwise_mul(layers::relu(y), layers::tanh(y));
  });
  const Graph graph = net.passed(net.fetches);
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu"), 0u);
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu_grad"), 0u);
}

TEST(FuseBatchNorm, LeavesASumThatRepeatsAnOperand) {
  const NormNet net({3, 6, 5}, [](Var& x) -> Var& {
    Var& weight = layers::create_parameter({16, 1, 1}, DType::float32, {});
    return joined(norm(conv(x, 16)), weight);
  });
  EXPECT_EQ(nodes_of(net.passed(net.fetches), "p.batch_norm_relu"), 0u);
}

// Two feeds may have other batches than each other: one row is repeated.
TEST(FuseBatchNorm, LeavesASumWhoseShapesMayDiffer) {
  const auto main = Program::create(), startup = Program::create();
  std::string out;
  {
    const UniqueNameGuard names;
    ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {3, 4, 4});
    Var& z = layers::data("z", {16, 4, 4});
    out = joined(norm(conv(x, 16)), z).name();
  }
  LowerRequest request{.fetches = {out}};
  request.feeds["x"] = {.shape = {Dim(), 3, 4, 4}};
  request.feeds["z"] = {.shape = {Dim(), 16, 4, 4}};
  Graph graph = lower(*main, request);
  run_passes(graph, cpu_target(), {"fuse_elementwise"});
  EXPECT_EQ(nodes_of(graph, "p.batch_norm_relu"), 0u);
  Scope scope;
  Executor executor;
  executor.run(*startup, {}, {}, {.scope = &scope});
  const Feeds feeds{{"x", cast(Draw(1).uniform({5, 3, 4, 4}), DType::float32)},
                    {"z", cast(Draw(2).uniform({1, 16, 4, 4}), DType::float32)}};
  EXPECT_EQ(executor.run_one(*main, feeds, out, {.scope = &scope}).shape(), (Shape{5, 16, 4, 4}));
}

TEST(FuseBatchNorm, LeavesFloat64) {
  const auto main = Program::create(), startup = Program::create();
  std::string out;
  {
    const UniqueNameGuard names;
    ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {3, 4, 4}, {.dtype = DType::float64});
    out = norm(x, "relu").name();
  }
  LowerRequest request{.fetches = {out}};
  request.feeds["x"] = {.dtype = DType::float64, .shape = {Dim(), 3, 4, 4}};
  Graph graph = lower(*main, request);
  run_passes(graph, cpu_target());
  EXPECT_EQ(nodes_of(graph, "batch_norm"), 1u);
}

// relu makes a zero of what is no number: fused, what was normalised would not be looked at.
TEST(FuseBatchNorm, IsLeftOutWhereEveryResultIsChecked) {
  const NormNet net({3, 4, 4}, [](Var& x) -> Var& { return norm(x, "relu"); });
  Feeds feeds = net.feeds(2, 1);
  feeds["x"].data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  set_flag("check_nan_inf", true);
  const std::string text = error_of([&] { net.run(feeds, 1, {}); });
  set_flag("check_nan_inf", false);
  EXPECT_THAT(text, HasSubstr("batch_norm"));
  EXPECT_THAT(text, HasSubstr("holds nan or inf"));
}

// ---- numbers

void expect_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                      const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape(), b[i].shape()) << what;
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), a[i].byte_size()), 0) << what << ", result " << i;
  }
}

void expect_no_bit_changes(const NormNet& net, const std::vector<int64_t>& batches) {
  ASSERT_GT(nodes_of(net.passed(net.fetches), "p.batch_norm_relu"), 0u);
  for (const int64_t batch : batches) {
    const Feeds feeds = net.feeds(batch, static_cast<uint64_t>(batch));
    for (const bool blocks : {true, false}) {
      std::vector<std::string> off;
      if (!blocks) off.emplace_back("assign_layout");
      std::vector<std::string> apart = off;
      apart.emplace_back("fuse_batch_norm");
      const std::vector<Tensor> wanted = net.run(feeds, 1, apart);
      for (const int threads : {1, 2, 3, 4}) {
        expect_same_bits(
            net.run(feeds, threads, off), wanted,
            cat("batch ", batch, blocks ? ", blocks, " : ", plain, ", threads, " threads"));
      }
    }
  }
}

TEST(FuseBatchNorm, ChangesNoBitOfOneLayer) {
  // Blocks of a vector, of all channels with a rest, too few for blocks; one pixel.
  for (const int filters : {16, 20, 5, 1}) {
    for (const Shape& image : {Shape{3, 9, 14}, Shape{2, 1, 1}}) {
      const NormNet net(image,
                        [&](Var& x) -> Var& { return conv(norm(conv(x, filters), "relu"), 2); });
      expect_no_bit_changes(net, {1, 4, 33});
    }
  }
}

TEST(FuseBatchNorm, ChangesNoBitOfResidualBlocks) {
  const NormNet net({3, 9, 14}, residual);
  expect_no_bit_changes(net, {1, 5});
}

// Where relu's result has two readers and nothing was added, the sum of what arrives is masked by
// what is normalised again.
TEST(FuseBatchNorm, ChangesNoBitWhereTwoReadTheResult) {
  const NormNet net({3, 7, 5}, [](Var& x) -> Var& {
    Var& y = norm(conv(x, 24), "relu");
    return layers::elementwise_add(conv(y, 4), conv(y, 4));
  });
  const Node grad = first_of(net.passed(net.fetches), "p.batch_norm_relu_grad");
  EXPECT_EQ(grad.in_counts, (std::vector<int>{1, 1, 1, 1, 1, 0, 2}));
  expect_no_bit_changes(net, {1, 6});
}

TEST(FuseBatchNorm, ChangesNoBitOfChannelsLast) {
  for (const int channels : {16, 11}) {
    const NormNet net({6, 5, channels}, [](Var& x) -> Var& {
      const auto last = [](Var& v, const char* act) -> Var& {
        return layers::batch_norm(v, {.act = act, .data_layout = "NHWC"});
      };
      Var& y = last(x, "relu");
      return joined(last(layers::tanh(y), ""), y);
    });
    expect_no_bit_changes(net, {1, 4});
  }
}

TEST(FuseBatchNorm, ChangesNoBitOfRows) {
  const NormNet net({12}, [](Var& x) -> Var& {
    return layers::fc(norm(layers::fc(x, {.size = 30}), "relu"), {.size = 3});
  });
  expect_no_bit_changes(net, {1, 2, 40});
}

TEST(FuseBatchNorm, ChangesNoBitOfKeptStatistics) {
  const NormNet net({3, 6, 5}, [](Var& x) -> Var& {
    const auto kept = [](Var& v, const char* act) -> Var& {
      return layers::batch_norm(v, {.act = act, .use_global_stats = true});
    };
    Var& y = kept(conv(x, 16), "relu");
    return joined(kept(conv(y, 16), ""), y);
  });
  expect_no_bit_changes(net, {1, 4});
}

TEST(FuseBatchNorm, ChangesNoBitOfInference) {
  NormNet net({3, 6, 5}, residual);
  net.main = clone(*net.main, true);
  net.fetches = {net.out};
  expect_no_bit_changes(net, {0, 1, 4});
}

TEST(FuseBatchNorm, IsAmongThePassesThatAreChecked) {
  const NormNet net({3, 9, 14}, residual);
  Scope scope;
  Executor executor;
  executor.run(*net.startup, {}, {}, {.scope = &scope});
  for (const PassCheck& check : check_passes(*net.main, net.feeds(4, 1), scope, 2e-5)) {
    EXPECT_TRUE(check.equal()) << to_text({check});
  }
}

// ---- equal shapes

TEST(EqualShapes, FollowTheBatchThroughANet) {
  const NormNet net({3, 6, 5}, residual);
  const Graph graph = net.passed(net.fetches, kNormPass);
  const EqualShapes shapes(graph);
  size_t sums = 0;
  for (const Node& node : graph.nodes) {
    if (node.schema->type() != "p.add" || graph.info(node.ins[1]).shape.rank() < 4) continue;
    ++sums;
    EXPECT_TRUE(shapes.same(node.ins[0], node.ins[1])) << graph.to_text();
  }
  EXPECT_GE(sums, 4u);
  EXPECT_FALSE(shapes.same(graph.feeds[0].value, graph.nodes[0].outs[0]));
}

}  // namespace
}  // namespace trireme::testing
