// Programs, blocks, variables and ops: lookup, edits, the version counter, errors with the line.
#include "ir/program.h"

#include <gmock/gmock.h>

#include "ir/unique_name.h"
#include "tests/ir/raw_program.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: this room's test helpers

TEST(Program, StartsWithOneEmptyRootBlock) {
  const auto program = Program::create();
  EXPECT_EQ(program->num_blocks(), 1u);
  EXPECT_EQ(program->global_block().index(), 0);
  EXPECT_EQ(program->global_block().parent_index(), -1);
  EXPECT_EQ(program->current_index(), 0);
  EXPECT_EQ(program->seed(), 0);
}

TEST(Program, IdsAreNeverReused) {
  const uint64_t first = Program::create()->id();
  EXPECT_GT(Program::create()->id(), first);
}

TEST(Program, DefaultSeedHoldsForLaterPrograms) {
  Program::set_default_seed(7);
  EXPECT_EQ(Program::create()->seed(), 7);
  Program::set_default_seed(0);
}

TEST(Program, AMissingBlockIsAnIndexError) {
  const auto program = Program::create();
  EXPECT_THAT(error_of([&] { program->block(1); }),
              HasSubstr("IndexError: block 1 does not exist: the program has 1 block"));
  EXPECT_THROW(program->set_current(-1), Error);
}

TEST(Program, CreateBlockPushesAndRollbackPops) {
  const auto program = Program::create();
  Block& inner = program->create_block();
  EXPECT_EQ(&program->current_block(), &inner);
  EXPECT_EQ(inner.parent(), &program->global_block());
  program->rollback();
  EXPECT_EQ(program->current_index(), 0);
  EXPECT_THROW(program->rollback(), Error);
}

TEST(Program, EveryEditRaisesTheVersion) {
  const auto program = Program::create();
  Block& block = program->global_block();
  uint64_t last = program->version();
  const auto edited = [&](const char* what) {
    EXPECT_GT(program->version(), last) << what;
    last = program->version();
  };
  Var& var = tensor(block, "v");
  edited("create_var");
  var.set_type(VarType::selected_rows), edited("set_type");
  var.set_dtype(DType::int64), edited("set_dtype");
  var.set_shape({2}), edited("set_shape");
  var.set_lod_level(1), edited("set_lod_level");
  var.set_persistable(true), edited("set_persistable");
  var.set_stop_gradient(true), edited("set_stop_gradient");
  var.set_is_data(true), edited("set_is_data");
  var.set_need_check_feed(true), edited("set_need_check_feed");
  var.edit_parameter(), edited("edit_parameter");
  var.drop_parameter(), edited("drop_parameter");
  Op& op = raw(block, "t", {{"X", {"v"}}}, {{"Out", {"v"}}});
  edited("insert_raw_op");
  op.set_type("u"), edited("set_type");
  op.set_input("Y", {"v"}), edited("set_input");
  op.set_output("Z", {"v"}), edited("set_output");
  op.remove_input("Y"), edited("remove_input");
  op.remove_output("Z"), edited("remove_output");
  op.set_attr("a", 1), edited("set_attr");
  op.remove_attr("a"), edited("remove_attr");
  op.rename_input("v", "w"), edited("rename_input");
  op.rename_output("v", "w"), edited("rename_output");
  block.rename_var("v", "w"), edited("rename_var");
  block.remove_ops(0, 1), edited("remove_ops");
  block.remove_var("w"), edited("remove_var");
  program->create_block(), edited("create_block");
  program->block(1).set_forward_index(0), edited("set_forward_index");
  program->keep_blocks({0}), edited("keep_blocks");
  program->set_seed(3), edited("set_seed");
}

TEST(Program, LookingIsNotAnEdit) {
  const auto program = toy_training();
  const uint64_t before = program->version();
  program->parameters();
  program->global_block().find_var_recursive("w");
  program->global_block().op(0).set_line(SourceLine::here());
  EXPECT_EQ(program->version(), before);
}

TEST(Program, RemovedOpsAndVariablesStayReadable) {
  const auto program = toy_training();
  Block& block = program->global_block();
  Op& op = block.op(0);
  Var& var = block.var("h");
  block.remove_ops(0, block.size());
  block.remove_var("h");
  EXPECT_EQ(op.type(), "mul");
  EXPECT_EQ(op.index(), -1);
  EXPECT_EQ(var.name(), "h");
  EXPECT_EQ(block.find_var("h"), nullptr);
}

TEST(Program, KeepBlocksRenumbersParentsAndSubBlocks) {
  const auto program = Program::create();
  program->create_block(0);
  Block& inner = program->create_block(0);
  Block& innermost = program->create_block(2);
  innermost.set_forward_index(1);
  Op& loop = raw(program->global_block(), "while", {}, {}, {{"sub_block", BlockRef{2}}});
  program->set_current(3);
  program->keep_blocks({0, 2, 3});
  EXPECT_EQ(program->num_blocks(), 3u);
  EXPECT_EQ(loop.sub_block(), &inner);
  EXPECT_EQ(inner.index(), 1);
  EXPECT_EQ(innermost.parent(), &inner);
  EXPECT_EQ(innermost.forward_index(), -1);
  EXPECT_EQ(&program->current_block(), &innermost);
}

TEST(Block, AnonymousVariablesAreNumbered) {
  const UniqueNameGuard names;
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "_generated_var_1");
  EXPECT_EQ(block.create_var({}).name(), "_generated_var_0");
  EXPECT_EQ(block.create_var({}).name(), "_generated_var_2");
}

TEST(Block, CreateVarReturnsTheSameVariableForTheSameStatement) {
  const auto program = Program::create();
  Block& block = program->global_block();
  Var& var = tensor(block, "v", {3});
  EXPECT_EQ(&tensor(block, "v", {3}), &var);
  EXPECT_EQ(&block.create_var({.name = "v", .has_shape = false}), &var);
  EXPECT_EQ(block.vars().size(), 1u);
}

TEST(Block, CreateVarRefusesAnotherStatement) {
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "v", {3});
  EXPECT_THAT(error_of([&] { tensor(block, "v", {4}); }),
              HasSubstr("ValueError: variable v exists with shape [3] and is asked for with [4]"));
  EXPECT_THROW(block.create_var({.name = "v", .dtype = DType::int64, .shape = {3}}), Error);
  EXPECT_THROW(block.create_var({.name = "v", .shape = {3}, .lod_level = 1}), Error);
  EXPECT_THROW(block.create_var({.name = "v", .shape = {3}, .persistable = true}), Error);
  EXPECT_THROW(block.create_var({.name = "v", .type = VarType::raw}), Error);
}

TEST(Block, AVariableWithoutShapeTakesTheOneStatedLater) {
  const auto program = Program::create();
  Block& block = program->global_block();
  Var& var = block.create_var({.name = "v", .has_shape = false});
  block.create_var({.name = "v", .dtype = DType::int64, .shape = {3}});
  EXPECT_TRUE(var.has_shape());
  EXPECT_EQ(var.describe(), "int64 [3]");
}

TEST(Block, ParametersLiveInTheGlobalBlock) {
  const auto program = Program::create();
  Block& inner = program->create_block();
  Var& var = inner.create_parameter({.name = "w", .shape = {2, 3}}, {.trainable = false});
  EXPECT_EQ(&var.block(), &program->global_block());
  EXPECT_TRUE(var.persistable());
  EXPECT_TRUE(var.stop_gradient());
  EXPECT_THAT(program->parameters(), ElementsAre(&var));
  EXPECT_EQ(&inner.create_parameter({.name = "w", .shape = {2, 3}, .stop_gradient = true}, {}),
            &var);
  EXPECT_FALSE(var.parameter()->trainable) << "what was said first stays";
}

TEST(Block, ParametersNeedAKnownShape) {
  const auto program = Program::create();
  Block& block = program->global_block();
  EXPECT_THAT(error_of([&] { weight(block, "w", {-1, 3}); }), HasSubstr("shape [-1, 3]"));
  EXPECT_THROW(weight(block, "w", {}), Error);
  EXPECT_THROW(block.create_parameter({.name = "w", .has_shape = false}, {}), Error);
}

TEST(Block, RecursiveLookupGoesThroughParentAndForwardBlocks) {
  const auto program = Program::create();
  Var& outer = tensor(program->global_block(), "outer");
  Block& forward = program->create_block(0);
  Var& local = tensor(forward, "local");
  Block& backward = program->create_block(0);
  EXPECT_EQ(backward.find_var_recursive("local"), nullptr);
  backward.set_forward_index(forward.index());
  EXPECT_EQ(backward.find_var_recursive("local"), &local);
  EXPECT_EQ(backward.find_var_recursive("outer"), &outer);
  EXPECT_EQ(backward.find_var("outer"), nullptr);
  EXPECT_THAT(error_of([&] { backward.var("outer"); }), HasSubstr("block 2 has no variable outer"));
}

TEST(Block, RecursiveLookupFindsTheNearestOfAName) {
  const auto program = Program::create();
  Var& outer = program->global_block().create_var({.name = "x"});
  Block& first = program->create_block(0);
  Block& second = program->create_block(first.index());
  Block& third = program->create_block(second.index());
  EXPECT_EQ(third.find_var_recursive("x"), &outer);
  Var& inner = first.create_var({.name = "x"});
  EXPECT_EQ(third.find_var_recursive("x"), &inner);
  EXPECT_EQ(program->global_block().find_var_recursive("x"), &outer);
  first.rename_var("x", "y");
  EXPECT_EQ(third.find_var_recursive("x"), &outer);
  EXPECT_EQ(third.find_var_recursive("y"), &inner);
  first.remove_var("y");
  EXPECT_EQ(third.find_var_recursive("y"), nullptr);
  third.create_var({.name = "z"});
  program->keep_blocks({0, 1});
  EXPECT_EQ(first.find_var_recursive("z"), nullptr);
}

TEST(Block, RenameReachesOpsOfInnerBlocksUnlessShadowed) {
  const auto program = Program::create();
  Block& root = program->global_block();
  tensor(root, "v");
  Op& outer = raw(root, "t", {{"X", {"v"}}}, {{"Out", {"v"}}},
                  {{"op_role_var", std::vector<std::string>{"v", "g"}}, {"ref", VarRef{"v"}}});
  Op& inner = raw(program->create_block(0), "t", {{"X", {"v"}}}, {});
  Block& shadowed = program->create_block(0);
  tensor(shadowed, "v");
  Op& other = raw(shadowed, "t", {{"X", {"v"}}}, {});
  root.rename_var(root.var("v").name(), "w");
  EXPECT_EQ(root.var("w").name(), "w");
  EXPECT_THAT(outer.input("X"), ElementsAre("w"));
  EXPECT_THAT(outer.output("Out"), ElementsAre("w"));
  EXPECT_THAT(outer.attr<std::vector<std::string>>("op_role_var"), ElementsAre("w", "g"));
  EXPECT_EQ(outer.attr<VarRef>("ref").name, "w");
  EXPECT_THAT(inner.input("X"), ElementsAre("w"));
  EXPECT_THAT(other.input("X"), ElementsAre("v"));
  tensor(root, "z");
  EXPECT_THROW(root.rename_var("w", "z"), Error);
}

TEST(Block, RemovingOpsOutsideTheBlockIsAnError) {
  const auto program = toy_training();
  EXPECT_THROW(program->global_block().remove_ops(5, 99), Error);
  EXPECT_THROW(program->global_block().insert_raw_op(99, {.type = "t"}), Error);
}

TEST(AppendOp, FillsRoleNameScopeAndDeviceFromTheProgram) {
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "x", {3});
  tensor(block, "y", {3});
  program->role = op_role::kBackward;
  program->role_vars = {"p", "g"};
  program->name_scope = "/s1/";
  const Op& op = block.append_op({"softmax", {{"X", {"x"}}}, {{"Out", {"y"}}}, {}});
  EXPECT_EQ(op.role(), op_role::kBackward);
  EXPECT_THAT(op.attr<std::vector<std::string>>("op_role_var"), ElementsAre("p", "g"));
  EXPECT_EQ(op.attr<std::string>("op_namescope"), "/s1/");
  EXPECT_EQ(op.attr<std::string>("op_device"), "");
  const Op& own = block.append_op(
      {"softmax", {{"X", {"x"}}}, {{"Out", {"y"}}}, {{"op_role", int32_t{op_role::kOptimize}}}});
  EXPECT_EQ(own.role(), op_role::kOptimize) << "what the caller gives wins";
}

TEST(AppendOp, AnUnknownOpNamesProgramAndLine) {
  const auto program = Program::create();
  const std::string what =
      error_of([&] { program->global_block().append_op({.type = "no_such"}); });
  EXPECT_THAT(what, HasSubstr("NotImplementedError in no_such"));
  EXPECT_THAT(what, HasSubstr(cat("block 0 of program ", program->id())));
  EXPECT_THAT(what, HasSubstr("program_test.cc"));
}

TEST(AppendOp, AFailedInferenceShowsOperandsAndLeavesTheBlockAsItWas) {
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "img_flat", {64, 784});
  tensor(block, "fc_0.w_0", {512, 10});
  tensor(block, "out");
  const std::string what = error_of([&] {
    block.append_op({"mul", {{"X", {"img_flat"}}, {"Y", {"fc_0.w_0"}}}, {{"Out", {"out"}}}, {}});
  });
  EXPECT_THAT(what, HasSubstr("ValueError in mul: "));
  EXPECT_THAT(what, HasSubstr("\n  X   img_flat   float32 [64, 784]\n"));
  EXPECT_THAT(what, HasSubstr("\n  Y   fc_0.w_0   float32 [512, 10]\n"));
  EXPECT_THAT(what, HasSubstr("asked for at "));
  EXPECT_THAT(what, HasSubstr("program_test.cc"));
  EXPECT_EQ(block.size(), 0u);
}

TEST(AppendOp, ABadAttributeShowsOperandsAndLine) {
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "x", {3});
  tensor(block, "y", {3});
  const std::string what = error_of([&] {
    block.append_op({"softmax", {{"X", {"x"}}}, {{"Out", {"y"}}}, {{"axis", std::string("two")}}});
  });
  EXPECT_THAT(what, HasSubstr(" in softmax: "));
  EXPECT_THAT(what, HasSubstr("X   x   float32 [3]"));
  EXPECT_THAT(what, HasSubstr("program_test.cc"));
}

TEST(LineScope, TheOutermostLineWins) {
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "x", {3});
  const OpSpec spec{"softmax", {{"X", {"x"}}}, {{"Out", {"x"}}}, {}};
  {
    const LineScope outer({"user.py", 41, "build_net", "net()"});
    const LineScope inner({"layers.py", 7, "fc", ""});
    EXPECT_EQ(block.append_op(spec).line().file, "user.py");
  }
  EXPECT_EQ(LineScope::current(), nullptr);
  EXPECT_THAT(block.append_op(spec).line().file, HasSubstr("program_test.cc"));
}

TEST(LineScope, AProviderAnswersWhenNoScopeIsOpen) {
  const auto program = Program::create();
  Block& block = program->global_block();
  tensor(block, "x", {3});
  const OpSpec spec{"softmax", {{"X", {"x"}}}, {{"Out", {"x"}}}, {}};
  LineScope::set_provider([] { return SourceLine{"frame.py", 3, "f", ""}; });
  EXPECT_EQ(block.append_op(spec).line().file, "frame.py");
  {
    const LineScope scope({"user.py", 41, "build_net", "net()"});
    EXPECT_EQ(block.append_op(spec).line().file, "user.py");
  }
  LineScope::set_provider([] { return SourceLine{}; });
  EXPECT_THAT(block.append_op(spec).line().file, HasSubstr("program_test.cc"));
  LineScope::set_provider(nullptr);
}

TEST(OpContext, TheInnermostOpSpeaks) {
  const auto program = toy_training();
  Op& inner = program->global_block().op(0);
  Op& outer = program->global_block().op(2);
  inner.set_line({"inner.py", 1, "f", ""});
  outer.set_line({"outer.py", 2, "g", ""});
  Error error("bad");
  add_op_context(error, inner);
  add_op_context(error, outer);
  EXPECT_THAT(error.what(), HasSubstr("ValueError in mul: bad"));
  EXPECT_THAT(error.what(), HasSubstr("inner.py:1"));
  EXPECT_THAT(error.what(), Not(HasSubstr("outer.py")));
  EXPECT_THAT(error.what(), HasSubstr("X   X   float32 [-1, 4]"));
}

TEST(OpContext, AFilesCallStackShowsTheUsersFrame) {
  const auto program = toy_training();
  Op& op = program->global_block().op(0);
  op.set_attr("op_callstack",
              std::vector<std::string>{"  File \"train.py\", line 41, in main", "    fc(x)",
                                       "  File \"/lib/paddle/fluid/layers/nn.py\", line 1, in fc",
                                       "    helper.append_op("});
  Error error("bad");
  add_op_context(error, op);
  EXPECT_THAT(error.what(), HasSubstr("made at File \"train.py\", line 41, in main"));
}

TEST(OpContext, ManyOperandsAreCutShort) {
  const auto program = Program::create();
  Op& op = raw(program->global_block(), "sum", {{"X", std::vector<std::string>(1000, "x")}}, {});
  Error error("bad");
  add_op_context(error, op);
  EXPECT_THAT(error.what(), HasSubstr("and 984 more"));
}

}  // namespace
}  // namespace trireme
