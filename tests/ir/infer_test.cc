// Tests infer_op in ir/infer.cc: what shape rules write into a program's variables.
#include <gmock/gmock.h>

#include "ir/schema.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

struct InferOp : ::testing::Test {
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();

  Var& var(const std::string& name, VarSpec spec = {.has_shape = false}) {
    spec.name = name;
    return block.create_var(std::move(spec));
  }
};

TEST_F(InferOp, WritesShapeTypeAndLodLevel) {
  var("x", {.dtype = DType::float64, .shape = {-1, 3}, .lod_level = 1});
  Var& y = var("y");
  block.append_op({"relu", {{"X", {"x"}}}, {{"Out", {"y"}}}});
  EXPECT_TRUE(y.has_shape());
  EXPECT_EQ(y.dtype(), DType::float64);
  EXPECT_EQ(y.shape(), Shape({-1, 3}));
  EXPECT_EQ(y.lod_level(), 1);
}

TEST_F(InferOp, SaysNothingWhenAnInputIsNotKnown) {
  var("x");
  Var& y = var("y");
  block.append_op({"relu", {{"X", {"x"}}}, {{"Out", {"y"}}}});
  EXPECT_FALSE(y.has_shape());
}

TEST_F(InferOp, SelectedRowsVariablesStateTheirFullShape) {
  var("w", {.shape = {100, 8}});
  var("ids", {.dtype = DType::int64, .shape = {-1, 1}});
  var("out@GRAD", {.shape = {-1, 8}});
  Var& grad = var("w@GRAD");
  block.append_op({"lookup_table_grad",
                   {{"W", {"w"}}, {"Ids", {"ids"}}, {"Out@GRAD", {"out@GRAD"}}},
                   {{"W@GRAD", {"w@GRAD"}}},
                   {{"is_sparse", true}}});
  EXPECT_EQ(grad.type(), VarType::selected_rows);
  EXPECT_EQ(grad.shape(), Shape({100, 8}));
}

TEST_F(InferOp, ErrorsNameOpOperandsAndLine) {
  var("x", {.shape = {2, 3}});
  var("w", {.shape = {4, 5}});
  var("y");
  try {
    block.append_op({"mul", {{"X", {"x"}}, {"Y", {"w"}}}, {{"Out", {"y"}}}},
                    {"train.py", 41, "build_net", ""});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("in mul"));
    EXPECT_THAT(e.what(), HasSubstr("float32 [4, 5]"));
    EXPECT_THAT(e.what(), HasSubstr("train.py:41"));
  }
  EXPECT_EQ(block.size(), 0u);
}

}  // namespace
}  // namespace trireme
