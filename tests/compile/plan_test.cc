// Plans read and write states once, and the plan checker finds planted mistakes.
#include "compile/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

// y = relu(x); s = s + y, written in place by name.
struct Accumulating {
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();

  Accumulating() {
    block.create_var({.name = "x", .shape = {3}, .is_data = true});
    block.create_var({.name = "s", .shape = {3}, .persistable = true});
    block.create_var({.name = "y", .has_shape = false});
    block.append_op({"relu", {{"X", {"x"}}}, {{"Out", {"y"}}}, {}});
    block.append_op({"elementwise_add", {{"X", {"s"}}, {"Y", {"y"}}}, {{"Out", {"s"}}}, {}});
  }
  std::unique_ptr<Plan> plan(std::vector<std::string> fetches = {}) {
    return make_plan(
        lower(*program, {.feeds = {{"x", {.shape = {3}}}}, .fetches = std::move(fetches)}),
        cpu_target());
  }
};

TEST(Plan, AStateIsReadOnceAndWrittenOnce) {
  const auto plan = Accumulating().plan();
  ASSERT_EQ(plan->graph.states.size(), 1u);
  const Graph::State& state = plan->graph.states[0];
  EXPECT_EQ(state.name, "s");
  EXPECT_GE(state.entry, 0);
  EXPECT_NE(state.entry, state.exit);
  EXPECT_TRUE(plan->writes_states);
}

TEST(Plan, FetchingTakesTheLastVersion) {
  Accumulating program;
  const auto plan = program.plan({"s"});
  EXPECT_EQ(plan->graph.fetches[0].value, plan->graph.states[0].exit);
}

TEST(PlanCheck, FindsAReadOfAnOverwrittenSlot) {
  const auto plan = Accumulating().plan();
  // Force the relu's result into the state's slot: the add then reads a lost value.
  const int entry = plan->graph.states[0].entry;
  plan->slot_of[plan->graph.nodes[0].outs[0]] = plan->slot_of[entry];
  EXPECT_THAT(error_of([&] { check_plan(*plan); }), HasSubstr("does not hold it any more"));
}

TEST(PlanCheck, FindsAWriteIntoAFeed) {
  const auto plan = Accumulating().plan();
  plan->slot_of[plan->graph.nodes[0].outs[0]] = plan->slot_of[plan->graph.feeds[0].value];
  EXPECT_THAT(error_of([&] { check_plan(*plan); }), HasSubstr("writes into a feed"));
}

TEST(PlanCheck, FindsAStateThatLosesItsLastVersion) {
  const auto plan = Accumulating().plan();
  plan->write_backs.clear();
  EXPECT_THAT(error_of([&] { check_plan(*plan); }),
              HasSubstr("does not end with its last version"));
}

TEST(PlanCheck, FindsGradientsThatOverlapInTheirBucket) {
  Accumulating program;
  Graph graph = lower(*program.program, {.feeds = {{"x", {.shape = {3}}}}, .fetches = {"y"}});
  const int y = graph.fetches[0].value;
  graph.fetches.clear();
  graph.kept = {y};
  const auto plan = make_plan(std::move(graph), cpu_target());
  plan->buckets = {{.entries = {{y, 16}}, .elements = 19}};
  check_plan(*plan);
  plan->buckets[0].elements = 18;
  EXPECT_THAT(error_of([&] { check_plan(*plan); }), HasSubstr("smaller than what stands in it"));
  plan->buckets[0] = {.entries = {{y, 0}, {y, 16}}, .elements = 32};
  EXPECT_THAT(error_of([&] { check_plan(*plan); }), HasSubstr("no memory of its own"));
  plan->buckets[0] = {.entries = {{plan->graph.states[0].exit, 0}}, .elements = 16};
  EXPECT_THAT(error_of([&] { check_plan(*plan); }), HasSubstr("no memory of its own"));
}

TEST(Lower, AnOpThatNobodyKnowsIsNamedWithItsLine) {
  auto program = Program::create();
  program->global_block().insert_raw_op(0, {"no_such_op", {}, {}, {}}, SourceLine::here());
  const std::string what = error_of([&] { lower(*program, {}); });
  EXPECT_THAT(what, HasSubstr("no_such_op"));
  EXPECT_THAT(what, HasSubstr("plan_test.cc"));
}

TEST(Lower, ATemporaryNobodyWroteIsExplained) {
  auto program = Program::create();
  Block& block = program->global_block();
  block.create_var({.name = "t", .shape = {3}});
  block.create_var({.name = "y", .has_shape = false});
  block.append_op({"relu", {{"X", {"t"}}}, {{"Out", {"y"}}}, {}});
  EXPECT_THAT(error_of([&] { lower(*program, {}); }),
              HasSubstr("it reads t, which holds nothing yet"));
}

// s is doubled when the fed condition holds.
TEST(ConditionalBlock, WritesOuterVariablesOnlyWhenTheConditionHolds) {
  auto program = Program::create();
  Block& block = program->global_block();
  block.create_var({.name = "c", .dtype = DType::boolean, .shape = {1}, .is_data = true});
  block.create_var({.name = "s", .shape = {2}, .persistable = true});
  block.create_var({.name = "after", .has_shape = false});
  Block& inside = program->create_block();
  inside.append_op({"scale", {{"X", {"s"}}}, {{"Out", {"s"}}}, {{"scale", 2.0f}}});
  program->rollback();
  block.append_op({"conditional_block",
                   {{"Cond", {"c"}}, {"Input", {}}},
                   {{"Out", {"s"}}},
                   {{"sub_block", BlockRef{1}}, {"is_scalar_condition", true}}});
  block.append_op({"scale", {{"X", {"s"}}}, {{"Out", {"after"}}}, {{"bias", 1.0f}}});

  Scope scope;
  scope.var("s").tensor() = floats({2}, {1, 3});
  Executor executor;
  const auto run = [&](bool condition) {
    return numbers(executor.run_one(*program, {{"c", make_tensor<bool>({1}, {condition})}}, "after",
                                    {.scope = &scope}));
  };
  EXPECT_EQ(run(false), (std::vector<double>{2, 4}));
  EXPECT_EQ(run(true), (std::vector<double>{3, 7}));
  EXPECT_EQ(numbers(scope.find("s")->tensor()), (std::vector<double>{2, 6}));
  EXPECT_EQ(run(true), (std::vector<double>{5, 13}));
  EXPECT_EQ(run(false), (std::vector<double>{5, 13}));
}

}  // namespace
}  // namespace trireme::testing
