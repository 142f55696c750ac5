// Pruning: what targets need, given what is fed.
#include <gmock/gmock.h>

#include "tests/ir/raw_program.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing;  // NOLINT: this room's test helpers

TEST(Prune, KeepsWhatTheTargetNeedsAndSortsVariables) {
  const auto program = toy_training();
  const auto pruned = prune(*program, {"X"}, {"h"});
  EXPECT_THAT(op_types(pruned->global_block()), ElementsAre("mul", "dropout"));
  EXPECT_THAT(var_names(pruned->global_block()), ElementsAre("X", "h", "w"));
  EXPECT_TRUE(pruned->global_block().op(1).is_target) << "the last op that writes it";
  EXPECT_FALSE(pruned->global_block().op(0).is_target);
}

TEST(Prune, CutsAtFedVariables) {
  const auto program = toy_training();
  const auto pruned = prune(*program, {"h"}, {"loss"});
  EXPECT_THAT(op_types(pruned->global_block()), ElementsAre("mean"));
}

TEST(Prune, OptimizersAreKeptOnlyWhenAsked) {
  const auto program = toy_training();
  EXPECT_THAT(op_types(prune(*program, {"X"}, {"loss", "w"})->global_block()),
              ElementsAre("mul", "dropout", "mean"));
  EXPECT_EQ(prune_keeping_optimizers(*program, {"X"}, {"loss"})->global_block().size(), 7u);
}

TEST(Prune, ATargetNoOpProducesIsAnError) {
  const auto program = toy_training();
  tensor(program->global_block(), "nobody");
  EXPECT_THAT(error_of([&] { prune(*program, {"X"}, {"nobody"}); }),
              HasSubstr("target nobody is produced by no op"));
  EXPECT_THAT(error_of([&] { prune(*program, {}, {"X"}); }), HasSubstr("fix: feed X"));
  EXPECT_THAT(error_of([&] { prune(*program, {}, {"absent"}); }),
              HasSubstr("target absent is not a variable"));
}

TEST(Prune, AFedTargetNeedsNoOp) {
  const auto program = toy_training();
  const auto pruned = prune(*program, {"X", "h"}, {"X"});
  EXPECT_THAT(op_types(pruned->global_block()), IsEmpty());
  EXPECT_THAT(var_names(pruned->global_block()), ElementsAre("X"));
}

TEST(Prune, AFedTargetThatARunnableOpWritesKeepsThatOp) {
  const auto program = toy_training();
  EXPECT_THAT(op_types(prune(*program, {"X", "h"}, {"h"})->global_block()), ElementsAre("dropout"));
}

TEST(Prune, VariableAttributesCountAsInputs) {
  const auto program = Program::create();
  Block& block = program->global_block();
  for (const char* name : {"a", "b", "c"}) tensor(block, name);
  raw(block, "make", {}, {{"Out", {"a"}}});
  raw(block, "make", {}, {{"Out", {"b"}}});
  raw(block, "make", {}, {{"Out", {"unused"}}});
  raw(block, "use", {}, {{"Out", {"c"}}}, {{"one", VarRef{"a"}}, {"many", VarRefs{{"b"}}}});
  const auto pruned = prune(*program, {}, {"c"});
  EXPECT_THAT(op_types(pruned->global_block()), ElementsAre("make", "make", "use"));
  EXPECT_THAT(var_names(pruned->global_block()), ElementsAre("a", "b", "c"));
}

// A loop whose body computes `out` from `in` and from `outside`, which the op does not list.
std::shared_ptr<Program> loop_program() {
  const auto program = Program::create();
  Block& block = program->global_block();
  for (const char* name : {"in", "outside", "out", "other"}) tensor(block, name);
  program->create_block(0);  // belongs to an op that is not needed
  Block& body = program->create_block(0);
  tensor(body, "local");
  raw(block, "make", {}, {{"Out", {"in"}}});
  raw(block, "make_outside", {}, {{"Out", {"outside"}}});
  raw(block, "while", {}, {{"Out", {"other"}}}, {{"sub_block", BlockRef{1}}});
  raw(block, "while", {{"X", {"in"}}}, {{"Out", {"out"}}}, {{"sub_block", BlockRef{2}}});
  raw(body, "add", {{"X", {"in"}}, {"Y", {"outside"}}}, {{"Out", {"local"}}});
  raw(body, "wasted", {{"X", {"in"}}}, {{"Out", {"wasted"}}});
  raw(body, "assign", {{"X", {"local"}}}, {{"Out", {"out"}}});
  return program;
}

TEST(Prune, GoesIntoSubBlocksAndRenumbersThem) {
  const auto program = loop_program();
  const auto pruned = prune(*program, {}, {"out"});
  EXPECT_THAT(op_types(pruned->global_block()), ElementsAre("make", "make_outside", "while"));
  ASSERT_EQ(pruned->num_blocks(), 2u);
  EXPECT_THAT(op_types(pruned->block(1)), ElementsAre("add", "assign"));
  EXPECT_EQ(pruned->global_block().op(2).sub_block(), &pruned->block(1));
  EXPECT_THAT(var_names(pruned->block(1)), ElementsAre("local"));
}

TEST(Prune, InsideLoopsOpsThatWriteFedVariablesStay) {
  const auto program = loop_program();
  raw(program->block(2), "assign_state", {{"X", {"wasted"}}}, {{"Out", {"in"}}});
  const auto pruned = prune(*program, {"in", "outside"}, {"out"});
  EXPECT_THAT(op_types(pruned->global_block()), ElementsAre("while"));
  EXPECT_THAT(op_types(pruned->block(1)), ElementsAre("add", "wasted", "assign", "assign_state"));
}

TEST(Prune, RecurrentStatesAreNeeded) {
  const auto program = Program::create();
  tensor(program->global_block(), "out");
  Block& body = program->create_block(0);
  raw(body, "step", {}, {{"Out", {"state"}}});
  raw(body, "step", {}, {{"Out", {"nothing"}}});
  raw(program->global_block(), "recurrent", {}, {{"outputs", {"out"}}},
      {{"sub_block", BlockRef{1}}, {"states", std::vector<std::string>{"state"}}});
  EXPECT_EQ(prune(*program, {}, {"out"})->block(1).size(), 1u);
}

TEST(Prune, FeedOpsLeadAndFetchOpsTrail) {
  const auto late_feed = toy_training();
  raw(late_feed->global_block(), "feed", {}, {});
  EXPECT_THAT(error_of([&] { prune(*late_feed, {"X"}, {"loss"}); }),
              HasSubstr("all feed ops must come first"));
  const auto early_fetch = toy_training();
  early_fetch->global_block().insert_raw_op(0, {.type = "fetch"});
  EXPECT_THAT(error_of([&] { prune(*early_fetch, {"X"}, {"loss"}); }),
              HasSubstr("all fetch ops must come last"));
}

TEST(Prune, LeavesTheProgramAlone) {
  const auto program = toy_training();
  const uint64_t before = program->version();
  prune(*program, {"X"}, {"loss"});
  clone(*program, true);
  EXPECT_EQ(program->version(), before);
}

}  // namespace
}  // namespace trireme
