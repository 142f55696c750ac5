// clone(for_test) and the inference copy: which ops, variables and blocks remain.
#include <gmock/gmock.h>

#include "tests/ir/raw_program.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace testing;  // NOLINT: this room's test helpers

TEST(Clone, IsEqualAndIndependent) {
  const auto program = toy_training();
  program->set_seed(5);
  program->role = op_role::kOptimize;
  program->backward_count = 1;
  program->global_block().op(0).set_line({"user.py", 3, "f", ""});
  program->global_block().var("X").error_clip = {-1.0f, 1.0f};
  const auto copy = clone(*program, false);
  EXPECT_NE(copy->id(), program->id());
  EXPECT_EQ(serialize(*copy), serialize(*program));
  EXPECT_EQ(copy->seed(), 5);
  EXPECT_EQ(copy->role, op_role::kOptimize);
  EXPECT_EQ(copy->backward_count, 1);
  EXPECT_TRUE(copy->global_block().var("w").is_parameter());
  EXPECT_TRUE(copy->global_block().var("X").is_data());
  EXPECT_TRUE(copy->global_block().var("X").error_clip.has_value());
  EXPECT_EQ(copy->global_block().op(0).line().file, "user.py");
  copy->global_block().op(0).set_type("other");
  EXPECT_EQ(program->global_block().op(0).type(), "mul");
}

TEST(Clone, ForTestDropsBackwardAndOptimizer) {
  const auto program = toy_training();
  program->set_seed(5);
  const auto copy = clone(*program, true);
  EXPECT_THAT(op_types(copy->global_block()), ElementsAre("mul", "dropout", "mean"));
  EXPECT_THAT(var_names(copy->global_block()), ElementsAre("X", "w", "h", "loss"));
  EXPECT_TRUE(copy->global_block().op(1).attr<bool>("is_test"));
  EXPECT_FALSE(program->global_block().op(1).attr<bool>("is_test"));
  EXPECT_TRUE(copy->global_block().var("w").is_parameter());
  EXPECT_TRUE(copy->global_block().var("X").is_data());
  EXPECT_EQ(copy->seed(), 0) << "the seed is not copied";
}

TEST(Clone, ForTestPrunesNothingWithoutALossGradient) {
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "alone");
  raw(block, "sgd", {}, {}, op_role::kOptimize);
  raw(block, "batch_norm", {}, {{"Y", {}}, {"ReserveSpace", {"r"}}}, {{"is_test", int32_t{0}}});
  const auto copy = clone(*program, true);
  EXPECT_THAT(op_types(copy->global_block()), ElementsAre("sgd", "batch_norm"));
  EXPECT_THAT(var_names(copy->global_block()), ElementsAre("alone"));
  EXPECT_EQ(copy->global_block().op(1).attr<int32_t>("is_test"), 1);
  EXPECT_FALSE(copy->global_block().op(1).outputs().contains("ReserveSpace"));
}

TEST(Clone, ForTestDropsLearningRateOps) {
  const auto program = toy_training();
  raw(program->global_block(), "increment", {}, {}, op_role::kLrSched);
  raw(program->global_block(), "scale", {}, {}, op_role::kOptimize | op_role::kLrSched);
  EXPECT_EQ(clone(*program, true)->global_block().size(), 3u);
}

TEST(Clone, ForTestDropsEmptyBlocksAndRenumbersTheRest) {
  const auto program = toy_training();
  Block& gradient = program->create_block(0);
  raw(gradient, "mul_grad", {}, {}, op_role::kBackward);
  Block& body = program->create_block(0);
  raw(body, "dropout", {{"X", {"only_inside"}}}, {}, {{"is_test", false}});
  Block& empty = program->create_block(0);
  tensor(program->global_block(), "only_inside");
  raw(program->global_block(), "while", {}, {}, {{"sub_block", BlockRef{body.index()}}});
  raw(program->global_block(), "while", {}, {}, {{"sub_block", BlockRef{empty.index()}}});
  raw(program->global_block(), "while_grad", {}, {},
      {{"sub_block", BlockRef{gradient.index()}}, {"op_role", int32_t{op_role::kBackward}}});
  const auto copy = clone(*program, true);
  ASSERT_EQ(copy->num_blocks(), 3u);
  EXPECT_THAT(op_types(copy->block(1)), ElementsAre("dropout"));
  EXPECT_TRUE(copy->block(1).op(0).attr<bool>("is_test"));
  EXPECT_EQ(copy->global_block().op(3).sub_block(), &copy->block(1));
  EXPECT_EQ(copy->global_block().op(4).sub_block(), &copy->block(2)) << "an op still uses it";
  EXPECT_NE(copy->global_block().find_var("only_inside"), nullptr);
}

TEST(InferenceCopy, DropsEverythingUpToTheFirstReadOp) {
  const auto program = Program::create();
  Block& block = program->global_block();
  block.create_var({.name = "r", .type = VarType::reader});
  raw(block, "create_py_reader", {}, {{"Out", {"r"}}});
  raw(block, "read", {{"Reader", {"r"}}}, {});
  raw(block, "dropout", {}, {}, {{"is_test", false}});
  raw(block, "read", {{"Reader", {"r"}}}, {});
  const auto kept = inference_copy(*program, false);
  EXPECT_EQ(kept->global_block().size(), 4u);
  EXPECT_TRUE(kept->global_block().op(2).attr<bool>("is_test"));
  const auto pruned = inference_copy(*program, true);
  EXPECT_THAT(op_types(pruned->global_block()), ElementsAre("dropout", "read"));
  EXPECT_THAT(var_names(pruned->global_block()), IsEmpty());
}

}  // namespace
}  // namespace trireme
