// Known values and wrong uses of the ops that run a sub-block, written without layers.
#include <gmock/gmock.h>

#include "runtime/executor.h"
#include "tests/support/op_record.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program whose block 1 is run by an op of block 0.
struct Nested {
  std::shared_ptr<Program> program = Program::create();
  Block& outside = program->global_block();
  Block& inside = program->create_block(0);
  Feeds feeds;
  Scope scope;
  Executor executor;

  Nested() { program->set_current(0); }
  void feed(const std::string& name, const Tensor& value) {
    outside.create_var(
        {.name = name, .dtype = value.dtype(), .shape = value.shape(), .is_data = true});
    feeds[name] = value;
  }
  void run_by(const std::string& type, Slots ins, Slots outs, Attrs attrs = {}) {
    attrs["sub_block"] = BlockRef{1};
    outside.append_op({type, std::move(ins), std::move(outs), std::move(attrs)});
  }
  std::vector<double> run(const std::string& name) {
    Variable found = executor.run(*program, feeds, {name}, {.scope = &scope}).front();
    note_result(*program, name, found);
    return numbers(found.tensor());
  }
};

// total += i and i += 1 while i < n.
struct Counting : Nested {
  explicit Counting(const Tensor& first = longs({1}, {0})) {
    feed("start", first);
    feed("n", longs({1}, {4}));
    outside.create_var({.name = "more", .dtype = DType::boolean, .shape = {1}});
    for (const char* name : {"i", "total"}) {
      outside.create_var({.name = name, .dtype = DType::int64, .shape = {1}});
      outside.append_op({"assign", {{"X", {"start"}}}, {{"Out", {name}}}, {}});
    }
    compare(outside);
    inside.append_op(
        {"elementwise_add", {{"X", {"total"}}, {"Y", {"i"}}}, {{"Out", {"total"}}}, {}});
    inside.append_op({"increment", {{"X", {"i"}}}, {{"Out", {"i"}}}, {}});
    compare(inside);
  }
  static void compare(Block& block) {
    block.append_op({"less_than", {{"X", {"i"}}, {"Y", {"n"}}}, {{"Out", {"more"}}}, {}});
  }
  void loop(const char* condition) {
    run_by("while", {{"X", {"i", "n", "total"}}, {"Condition", {condition}}},
           {{"Out", {"i", "total", "more"}}});
  }
};

TEST(WhileOp, RunsItsBlockWhileTheConditionHolds) {
  Counting count;
  count.loop("more");
  EXPECT_THAT(count.run("total"), ElementsAre(0 + 1 + 2 + 3));
}

TEST(WhileOp, TheConditionIsABool) {
  Counting count;
  count.loop("n");
  EXPECT_THAT(error_of([&] { count.run("total"); }), HasSubstr("Condition is int64, not bool"));
}

TEST(ConditionalBlockOp, LeavesWhatItDoesNotRun) {
  for (const bool taken : {true, false}) {
    Nested branch;
    branch.feed("go", cast(longs({1}, {taken}), DType::boolean));
    branch.feed("x", doubles({2}, {1, 2}));
    branch.outside.create_var({.name = "y", .dtype = DType::float64, .shape = {2}});
    branch.outside.append_op({"assign", {{"X", {"x"}}}, {{"Out", {"y"}}}, {}});
    branch.inside.append_op({"scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {{"scale", 10.0f}}});
    branch.run_by("conditional_block", {{"Cond", {"go"}}, {"Input", {"x"}}}, {{"Out", {"y"}}},
                  {{"is_scalar_condition", true}});
    EXPECT_THAT(branch.run("y"), taken ? ElementsAre(10, 20) : ElementsAre(1, 2));
    branch.feeds["go"] = cast(longs({2}, {1, 1}), DType::boolean);
    EXPECT_THAT(error_of([&] { branch.run("y"); }), HasSubstr("go"));
  }
}

TEST(ConditionalBlockOp, NeedsACondition) {
  Nested branch;
  branch.feed("x", doubles({1}, {1}));
  branch.run_by("conditional_block", {{"Input", {"x"}}}, {{"Out", {"x"}}});
  EXPECT_THAT(error_of([&] { branch.run("x"); }), HasSubstr("Cond is missing"));
}

// h = h + x, from 100, over the rows of x.
struct Running : Nested {
  explicit Running(const std::vector<std::string>& after) {
    feed("x", doubles({3, 1}, {1, 2, 3}));
    feed("first", doubles({1}, {100}));
    for (const char* name : {"x", "before", "h"}) {
      inside.create_var({.name = name, .dtype = DType::float64, .shape = {1}});
    }
    outside.create_var({.name = "h", .dtype = DType::float64, .shape = {3, 1}});
    inside.append_op({"elementwise_add", {{"X", {"before"}}, {"Y", {"x"}}}, {{"Out", {"h"}}}, {}});
    run_by("recurrent", {{"inputs", {"x"}}, {"initial_states", {"first"}}}, {{"outputs", {"h"}}},
           {{"has_states", true},
            {"ex_states", std::vector<std::string>{"before"}},
            {"states", after}});
  }
};

TEST(RecurrentOp, HandsItsStateFromRowToRow) {
  EXPECT_THAT(Running({"h"}).run("h"), ElementsAre(101, 103, 106));
}

TEST(RecurrentOp, EveryStateHasABeforeAndAnAfter) {
  EXPECT_THAT(error_of([] { Running({}).run("h"); }),
              HasSubstr("there are 1 ex_states, 0 states and 1 initial_states"));
}

TEST(RnnMemoryHelper, IsACopy) {
  EXPECT_THAT(numbers(run_op("rnn_memory_helper", {{"X", doubles({2}, {1, 2})}})),
              ElementsAre(1, 2));
}

}  // namespace
}  // namespace trireme::testing
