// group_updates: which steps become one instruction, which stay alone, and that no bit changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compile/lower.h"
#include "compile/passes.h"
#include "compile/pipeline.h"
#include "core/flags.h"
#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "runtime/feed_split.h"
#include "runtime/profiler.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Parameters w0, w1, ... with a gradient each, updated by ops that a test appends.
struct Updates {
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();

  Updates() { lasting("lr", {1}); }
  void lasting(const std::string& name, const Shape& shape, VarType type = VarType::lod_tensor) {
    block.create_var({.name = name, .type = type, .shape = shape, .persistable = true});
  }
  void sgd(int number, VarType gradient = VarType::lod_tensor) {
    const std::string w = cat("w", number), g = cat("g", number);
    if (!block.find_var(w)) lasting(w, {5, 2});
    if (!block.find_var(g)) lasting(g, {5, 2}, gradient);
    block.append_op({"sgd",
                     {{"Param", {w}}, {"Grad", {g}}, {"LearningRate", {"lr"}}},
                     {{"ParamOut", {w}}},
                     {}});
  }
  Graph passed(const std::vector<std::string>& fetches = {}) const {
    LowerRequest request;
    request.fetches = fetches;
    Graph graph = lower(*program, request);
    run_passes(graph, cpu_target());
    return graph;
  }
};

std::vector<size_t> group_sizes(const Graph& graph) {
  std::vector<size_t> sizes;
  for (const Node& node : graph.nodes) {
    if (!node.members.empty()) sizes.push_back(node.members.size());
  }
  return sizes;
}

TEST(GroupUpdates, StepsOfOneKindAreOneInstructionInPlace) {
  Updates updates;
  for (int i = 0; i < 4; ++i) updates.sgd(i);
  Graph graph = updates.passed();
  const Node& last = graph.nodes.back();
  EXPECT_EQ(last.schema->type(), "p.group");
  EXPECT_EQ(last.members.size(), 4u);
  EXPECT_EQ(last.origin->op_type, "sgd");
  EXPECT_EQ(group_sizes(graph).size(), 1u);
  const auto plan = make_plan(std::move(graph), cpu_target());
  EXPECT_TRUE(plan->write_backs.empty());
}

TEST(GroupUpdates, AParameterThatIsUpdatedTwiceStaysOutside) {
  Updates updates;
  for (const int number : {0, 1, 0, 2, 3}) updates.sgd(number);
  EXPECT_EQ(group_sizes(updates.passed()), (std::vector<size_t>{3}));
}

TEST(GroupUpdates, WhoReadsAParameterFindsItUpdated) {
  Updates updates;
  updates.sgd(0);
  updates.lasting("norm", {1});
  updates.block.append_op(
      {"reduce_sum", {{"X", {"w0"}}}, {{"Out", {"norm"}}}, {{"reduce_all", true}}});
  updates.sgd(1);
  updates.sgd(2);
  EXPECT_EQ(group_sizes(updates.passed()), (std::vector<size_t>{2}));
}

TEST(GroupUpdates, ASparseGradientIsAppliedAlone) {
  Updates updates;
  updates.sgd(0);
  updates.sgd(1, VarType::selected_rows);
  updates.sgd(2);
  const Graph graph = updates.passed();
  EXPECT_EQ(group_sizes(graph), (std::vector<size_t>{2}));
  EXPECT_TRUE(std::any_of(graph.nodes.begin(), graph.nodes.end(),
                          [](const Node& node) { return node.schema->type() == "sgd"; }));
}

// What b's step reads of a's old value, the group may not overwrite.
TEST(GroupUpdates, AGradientThatIsAnotherParameterIsNotOverwrittenWhileItIsRead) {
  Updates updates;
  updates.sgd(0);
  updates.lasting("w9", {5, 2});
  updates.block.append_op({"sgd",
                           {{"Param", {"w9"}}, {"Grad", {"w1"}}, {"LearningRate", {"lr"}}},
                           {{"ParamOut", {"w9"}}},
                           {}});
  updates.sgd(1);
  EXPECT_EQ(group_sizes(updates.passed()), (std::vector<size_t>{2}));
}

TEST(GroupUpdates, StepsInsideABranchAreGroupedThere) {
  Updates updates;
  for (int i = 0; i < 3; ++i) {
    updates.lasting(cat("w", i), {5, 2});
    updates.lasting(cat("g", i), {5, 2});
  }
  const ProgramGuard guard(updates.program, Program::create());
  Var& now = layers::data("now", {1}, {.append_batch_size = false, .dtype = DType::boolean});
  layers::Switch pick;
  pick.when(now, [&] {
    for (int i = 0; i < 3; ++i) {
      const std::string w = cat("w", i), g = cat("g", i);
      updates.program->current_block().append_op(
          {"sgd",
           {{"Param", {w}}, {"Grad", {g}}, {"LearningRate", {"lr"}}},
           {{"ParamOut", {w}}},
           {}});
    }
  });
  Scope scope;
  const auto set = [&](const std::string& name, const Shape& shape, double value) {
    scope.var(name).tensor() = filled(DType::float32, shape, value);
  };
  set("lr", {1}, 0.5);
  for (int i = 0; i < 3; ++i) {
    set(cat("w", i), {5, 2}, i);
    set(cat("g", i), {5, 2}, 2);
  }
  Executor exe;
  const std::vector<double> wanted[] = {{0, 1, 2},
                                        {-1, 0, 1}};  // before and after a step of 0.5 * 2
  for (const bool held : {false, true}) {
    exe.run(*updates.program, {{"now", filled(DType::boolean, {1}, held)}}, {}, {.scope = &scope});
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(scope.find(cat("w", i))->tensor().data<float>()[9], wanted[held][i]) << held;
    }
  }
  LowerRequest request;
  request.feeds["now"] = {.dtype = DType::boolean, .shape = {1}};
  Graph graph = lower(*updates.program, request);
  run_passes(graph, cpu_target());
  std::vector<size_t> sizes;
  for (const Node& node : graph.nodes) {
    for (const Region& region : node.regions) {
      const auto inside = group_sizes(*region.graph);
      sizes.insert(sizes.end(), inside.begin(), inside.end());
    }
  }
  EXPECT_EQ(sizes, std::vector<size_t>{3});
}

using Minimize = std::function<void(Var&)>;

const std::vector<std::pair<std::string, Minimize>>& grouped_optimizers() {
  static const std::vector<std::pair<std::string, Minimize>> all = {
      {"sgd", [](Var& loss) { optimizer::Sgd(0.1).minimize(loss); }},
      {"momentum", [](Var& loss) { optimizer::Momentum(0.1, 0.9).minimize(loss); }},
      {"lars", [](Var& loss) { optimizer::LarsMomentum(0.1, 0.9).minimize(loss); }},
      {"adam", [](Var& loss) { optimizer::Adam(0.01).minimize(loss); }},
      {"adamax", [](Var& loss) { optimizer::Adamax(0.01).minimize(loss); }},
      {"adagrad", [](Var& loss) { optimizer::Adagrad(0.1).minimize(loss); }},
      {"decayed_adagrad", [](Var& loss) { optimizer::DecayedAdagrad(0.1).minimize(loss); }},
      {"adadelta", [](Var& loss) { optimizer::Adadelta(0.1).minimize(loss); }},
      {"rmsprop", [](Var& loss) { optimizer::RmsProp(0.1).minimize(loss); }},
      {"ftrl", [](Var& loss) { optimizer::Ftrl(0.1).minimize(loss); }},
      {"lamb", [](Var& loss) { optimizer::Lamb(0.1).minimize(loss); }},
      {"dpsgd", [](Var& loss) { optimizer::Dpsgd(0.1).minimize(loss); }},
  };
  return all;
}

struct Trained {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  std::string loss;
  Feeds feeds{{"x", filled(DType::float32, {8, 6}, 0.25)}};

  explicit Trained(const Minimize& minimize) {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    startup->set_seed(7);
    Var& x = layers::data("x", {6});
    Var* hidden = &layers::fc(x, {.size = 300, .act = "relu"});
    for (int i = 0; i < 2; ++i) hidden = &layers::fc(*hidden, {.size = 200, .act = "tanh"});
    Var& made = layers::mean(layers::square(layers::fc(*hidden, {.size = 9})));
    minimize(made);
    loss = made.name();
  }
  // The bytes of everything that outlives a step, after three.
  std::vector<std::byte> states(int devices, RunOptions options) const {
    Scope scope;
    Executor exe;
    options.scope = &scope;
    options.process_seed = 5;
    exe.run(*startup, {}, {}, options);
    for (int i = 0; i < 3; ++i) {
      exe.run_parallel(*main, split_feeds(feeds, devices), {loss}, {}, options);
    }
    std::vector<std::byte> bytes;
    for (const Var* var : main->global_block().vars()) {
      if (!var->persistable()) continue;
      const auto found = std::as_const(*scope.find(var->name())).tensor().bytes();
      bytes.insert(bytes.end(), found.begin(), found.end());
    }
    return bytes;
  }
};

TEST(GroupUpdates, ChangesNoBitOfAnyOptimizer) {
  for (const auto& [name, minimize] : grouped_optimizers()) {
    const Trained net(minimize);
    for (const int devices : {1, 2}) {
      const auto plain = net.states(devices, {.threads = 1, .passes_off = {"group_updates"}});
      for (const int threads : {1, 3}) {
        EXPECT_EQ(net.states(devices, {.threads = threads, .cut_bytes = 0}), plain)
            << name << " on " << devices << " devices, " << threads << " threads";
      }
    }
  }
}

TEST(GroupUpdates, TakesNoMoreMemory) {
  for (const auto& [name, minimize] : grouped_optimizers()) {
    const Trained net(minimize);
    std::vector<size_t> arena;
    for (const bool on : {true, false}) {
      Scope scope;
      Executor exe;
      RunOptions options{.scope = &scope, .threads = 1};
      exe.run(*net.startup, {}, {}, options);
      if (!on) options.passes_off = {"group_updates"};
      exe.run(*net.main, net.feeds, {net.loss}, options);
      arena.push_back(exe.arena_bytes(*net.main));
    }
    EXPECT_LE(arena[0], arena[1]) << name;
  }
}

// The rate is made a number of one shape first, once for all.
TEST(GroupUpdates, AProfileNamesTheOps) {
  const Trained net([](Var& loss) { optimizer::Momentum(0.1, 0.9).minimize(loss); });
  Scope scope;
  Executor exe;
  exe.run(*net.startup, {}, {}, {.scope = &scope});
  start_profiling();
  exe.run(*net.main, net.feeds, {}, {.scope = &scope});
  const auto events = events_by_op(stop_profiling());
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const auto& event) { return event.op == "momentum"; }),
            2);
}

TEST(GroupUpdates, AnErrorNamesTheOneParameter) {
  const Trained net([](Var& loss) { optimizer::Momentum(0.1, 0.9).minimize(loss); });
  Scope scope;
  Executor exe;
  exe.run(*net.startup, {}, {}, {.scope = &scope});
  scope.find("fc_1.w_0_velocity_0")->tensor() = filled(DType::float32, {3}, 1);
  const std::string text = error_of([&] { exe.run(*net.main, net.feeds, {}, {.scope = &scope}); });
  EXPECT_THAT(text, HasSubstr("fc_1.w_0"));
  EXPECT_THAT(text, Not(HasSubstr("fc_2.w_0")));
}

TEST(GroupUpdates, IsLeftOutWhereEveryResultIsChecked) {
  const Trained net([](Var& loss) { optimizer::Adam(0.1).minimize(loss); });
  Scope scope;
  Executor exe;
  exe.run(*net.startup, {}, {}, {.scope = &scope});
  scope.find("fc_2.b_0_moment2_0")->tensor() = filled(DType::float32, {200}, -100);
  set_flag("check_nan_inf", true);
  const std::string text = error_of([&] { exe.run(*net.main, net.feeds, {}, {.scope = &scope}); });
  set_flag("check_nan_inf", false);
  EXPECT_THAT(text, HasSubstr("fc_2.b_0"));
  EXPECT_THAT(text, Not(HasSubstr("fc_2.w_0 ")));
}

}  // namespace
}  // namespace trireme::testing
