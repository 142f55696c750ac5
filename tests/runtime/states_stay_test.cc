// Programs read from saved models: what follows from their parameters is made once, and again as
// soon as a parameter has changed.
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "core/text.h"
#include "cpu/onednn.h"
#include "io/inference_model.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/check_passes.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace trireme::testing {
namespace {

// Convolutions with batch_norm, a bias, a residual, groups; channels that fill blocks and that do
// not.
Var& net_of(Var& x, int channels) {
  const auto conv = [](Var& in, int filters, int window, int groups, const char* act) -> Var& {
    Var& made = layers::conv2d(in, {.num_filters = filters,
                                    .filter_size = {window},
                                    .padding = {window / 2},
                                    .groups = groups,
                                    .bias_attr = false});
    return layers::batch_norm(made, {.act = act});
  };
  Var& first = conv(x, channels, 3, 1, "relu");
  Var& second = conv(first, channels, 3, channels, "relu");
  Var& third = conv(second, channels, 1, 1, "");
  Var& joined = layers::relu(layers::elementwise_add(third, first));
  Var& biased = layers::conv2d(joined, {.num_filters = 2 * channels, .filter_size = {3}});
  Var& shortcut = conv(layers::relu(layers::batch_norm(biased, {})), channels, 1, 1, "");
  return layers::fc(layers::elementwise_add(shortcut, conv(biased, channels, 1, 1, "")),
                    {.size = 5});
}

struct SavedNet {
  const UniqueNameGuard names;
  std::shared_ptr<Program> main = Program::create(), startup = Program::create(), test;
  Scope trained, loaded;
  Executor executor;
  InferenceModel model;
  std::string out;
  Draw draw{test_seed()};

  explicit SavedNet(int channels) {
    {
      ProgramGuard guard(main, startup);
      out = net_of(layers::data("x", {3, 9, 10}), channels).name();
      optimizer::Sgd(0.01).minimize(layers::mean(main->global_block().var(out)));
    }
    test = clone(*main, true);
    executor.run(*startup, {}, {}, {.scope = &trained});
    for (int i = 0; i < 3; ++i) train();
    const TempDir dir;
    save_inference_model(dir.path(), {"x"}, {out}, *test, trained);
    model = load_inference_model(dir.path(), loaded);
  }
  void train() { executor.run(*main, fed(4), {}, {.scope = &trained}); }
  Feeds fed(int64_t batch) {
    return {{"x", cast(draw.uniform({batch, 3, 9, 10}), DType::float32)}};
  }
  Tensor predict(const Feeds& feeds, int threads = 1) {
    return executor
        .run_one(*model.program, feeds, model.targets[0],
                 {.scope = &loaded, .threads = threads, .cut_bytes = 0})
        .clone();
  }
  // By the program as it was built, whose parameters are read in every run.
  Tensor expected(const Feeds& feeds, Scope& scope) {
    return executor.run_one(*test, feeds, out, {.scope = &scope});
  }
  std::string parameter(std::string_view type, std::string_view slot) const {
    for (const Op* op : model.program->global_block().ops()) {
      if (op->type() == type) return op->input(slot)[0];
    }
    throw InternalError("there is no such op");
  }
};

double off(const Tensor& found, const Tensor& wanted) {
  double scale = 1e-3;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    scale = std::max(scale, std::abs(element_as_double(wanted, i)));
  }
  return max_abs_diff(found, wanted) / scale;
}

TEST(StatesStay, PredictionsAreThoseOfTheProgramThatWasBuilt) {
  for (const int channels : {16, 20, 64}) {
    SavedNet net(channels);
    for (const int64_t batch : {1, 5, 1, 2}) {
      const Feeds feeds = net.fed(batch);
      const Tensor wanted = net.expected(feeds, net.trained);
      for (int run = 0; run < 2; ++run) {
        EXPECT_LT(off(net.predict(feeds), wanted), 2e-5)
            << channels << " channels, batch " << batch;
      }
    }
  }
}

TEST(StatesStay, AnyNumberOfThreadsGivesTheSameBits) {
  SavedNet net(64);
  for (const int64_t batch : {1, 3, 8}) {
    const Feeds feeds = net.fed(batch);
    const std::vector<double> one = numbers(net.predict(feeds, 1));
    for (const int threads : {2, 3}) EXPECT_EQ(numbers(net.predict(feeds, threads)), one);
  }
}

TEST(StatesStay, AParameterThatChangesIsSeen) {
  SavedNet net(32);
  const Feeds feeds = net.fed(1);
  for (const auto& [type, slot] : {std::pair("conv2d", "Filter"),
                                   {"batch_norm", "Scale"},
                                   {"batch_norm", "Mean"},
                                   {"mul", "Y"}}) {
    const Tensor before = net.predict(feeds);
    const std::string name = net.parameter(type, slot);
    Tensor& held = net.loaded.find(name)->tensor();
    for (int64_t i = 0; i < held.numel(); ++i) held.data<float>()[i] += 0.05f;
    const Tensor after = net.predict(feeds);
    EXPECT_GT(off(after, before), 1e-4) << name;
    EXPECT_LT(off(after, net.expected(feeds, net.loaded)), 2e-5) << name;
  }
}

TEST(StatesStay, MemoryThatSomebodyHoldsIsReadInEveryRun) {
  SavedNet net(16);
  const Feeds feeds = net.fed(1);
  const Tensor view = net.loaded.find(net.parameter("conv2d", "Filter"))->tensor();
  for (int i = 0; i < 3; ++i) {
    const Tensor before = net.predict(feeds);
    view.data<float>()[i] += 1;  // nobody is told
    const Tensor after = net.predict(feeds);
    EXPECT_GT(max_abs_diff(after, before), 0);
    EXPECT_LT(off(after, net.expected(feeds, net.loaded)), 2e-5);
  }
}

TEST(StatesStay, ARunThatTrainsInTheSameScopeIsSeen) {
  SavedNet net(16);
  const Feeds feeds = net.fed(2);
  const auto predict = [&] {
    return net.executor
        .run_one(*net.model.program, feeds, net.model.targets[0], {.scope = &net.trained})
        .clone();
  };
  for (int i = 0; i < 3; ++i) {
    const Tensor before = predict();
    net.train();
    const Tensor after = predict();
    EXPECT_GT(max_abs_diff(after, before), 0);
    EXPECT_LT(off(after, net.expected(feeds, net.trained)), 2e-5);
  }
}

TEST(StatesStay, WithoutThePassStatisticsAreWrittenAndNothingIsKept) {
  SavedNet net(16);
  const Feeds feeds = net.fed(2);
  const Tensor found =
      net.executor.run_one(*net.model.program, feeds, net.model.targets[0],
                           {.scope = &net.loaded, .passes_off = {"fold_for_inference"}});
  EXPECT_LT(off(found, net.expected(feeds, net.loaded)), 2e-5);
  const std::string report = net.executor.report(*net.model.program);
  EXPECT_EQ(report.find("kept until these change"), report.npos) << report;
}

TEST(StatesStay, TheReportSaysWhatIsKept) {
  SavedNet net(16);
  net.predict(net.fed(1));
  const std::string report = net.executor.report(*net.model.program);
  EXPECT_EQ(report.find("which is kept until these change") != report.npos, has_onednn());
  EXPECT_EQ(report.find("in every step"), report.npos) << report;
}

TEST(StatesStay, ARunWritesNoParameter) {
  SavedNet net(16);
  const Feeds feeds = net.fed(2);
  std::map<std::string, std::vector<double>> before;
  for (const std::string& name : net.loaded.names()) {
    if (net.loaded.find(name)->initialized())
      before[name] = numbers(net.loaded.find(name)->tensor());
  }
  const uint64_t steps = net.loaded.step();
  net.predict(feeds);
  EXPECT_EQ(net.loaded.step(), steps);
  for (const auto& [name, values] : before) {
    EXPECT_EQ(numbers(net.loaded.find(name)->tensor()), values) << name;
  }
}

// ---- the pass

size_t nodes_of(const Graph& graph, std::string_view type) {
  size_t count = 0;
  for (const Node& node : graph.nodes) count += node.schema->type() == type;
  return count;
}

Graph passed(const SavedNet& net, const std::vector<std::string>& fetches) {
  LowerRequest request{.fetches = fetches};
  request.feeds["x"] = {.shape = {Dim(), 3, 9, 10}};
  Graph graph = lower(*net.model.program, request);
  graph.states_stay = true;
  run_passes(graph, cpu_target(), {});
  return graph;
}

TEST(FoldForInference, LeavesNoNormThatFollowsAConvolution) {
  SavedNet net(16);
  const Graph graph = passed(net, net.model.targets);
  EXPECT_TRUE(graph.states_stay);
  // One norm reads what another convolution reads as well.
  EXPECT_EQ(nodes_of(graph, "batch_norm") + nodes_of(graph, "p.batch_norm_relu"), 1u)
      << graph.to_text();
  EXPECT_EQ(nodes_of(graph, "p.fold_batch_norm"), 5u);
  if (cpu_target().lanes == 16 && has_onednn()) {
    EXPECT_EQ(nodes_of(graph, "p.add") + nodes_of(graph, "p.max"), 0u) << graph.to_text();
  }
  for (const auto& state : graph.states) EXPECT_EQ(state.exit, state.entry) << state.name;
}

TEST(FoldForInference, LeavesWhatSomebodyElseReads) {
  SavedNet net(16);
  const size_t all = nodes_of(passed(net, net.model.targets), "p.fold_batch_norm");
  for (const Op* op : net.model.program->global_block().ops()) {
    if (op->type() != "conv2d" && op->type() != "depthwise_conv2d") continue;
    const Graph graph = passed(net, {net.model.targets[0], op->output("Output")[0]});
    EXPECT_GE(nodes_of(graph, "p.fold_batch_norm"), all - 1);
    const Feeds feeds = net.fed(1);
    const auto results =
        net.executor.run(*net.model.program, feeds, {net.model.targets[0], op->output("Output")[0]},
                         {.scope = &net.loaded});
    EXPECT_LT(off(results[0].tensor(), net.expected(feeds, net.loaded)), 2e-5);
  }
}

TEST(FoldForInference, LeavesProgramsThatWrite) {
  SavedNet net(16);
  LowerRequest request{.fetches = {net.out}};
  request.feeds["x"] = {.shape = {Dim(), 3, 9, 10}};
  Graph graph = lower(*net.main, request);
  graph.states_stay = true;
  run_passes(graph, cpu_target(), {});
  EXPECT_FALSE(graph.states_stay);
  EXPECT_EQ(nodes_of(graph, "p.fold_batch_norm"), 0u);
}

}  // namespace
}  // namespace trireme::testing
