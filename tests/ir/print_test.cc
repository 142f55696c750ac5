// The readable form of programs and the protobuf text.
#include <gmock/gmock.h>

#include "tests/ir/raw_program.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: this room's test helpers

TEST(Print, VariablesSayKindTypeShapeAndGradient) {
  const auto program = Program::create();
  Block& block = program->global_block();
  EXPECT_EQ(to_text(block.create_var({.name = "X", .shape = {-1, 23, 48}})),
            "var X : LOD_TENSOR.shape(-1, 23, 48).dtype(float32).stop_gradient(False)");
  EXPECT_EQ(to_text(weight(block, "fc.b_0", {10})),
            "persist trainable param fc.b_0 : "
            "LOD_TENSOR.shape(10,).dtype(float32).stop_gradient(False)");
  EXPECT_EQ(to_text(block.create_parameter({.name = "f", .dtype = DType::float16, .shape = {1}},
                                           {.trainable = false})),
            "persist param f : LOD_TENSOR.shape(1,).dtype(float16).stop_gradient(True)");
  EXPECT_EQ(to_text(block.create_var({.name = "s", .type = VarType::step_scopes})),
            "var s : STEP_SCOPES)");
}

TEST(Print, OpsShowSlotsAndSortedAttributes) {
  const auto program = Program::create();
  Block& block = program->global_block();
  const Op& op = raw(block, "mul", {{"Y", {"w"}}, {"X", {"x"}}}, {{"Out", {"y"}}},
                     {{"scale_y", std::vector<float>{1.0f}},
                      {"op_namescope", std::string("/")},
                      {"force", false},
                      {"op_callstack", std::vector<std::string>{"File"}},
                      {"x_num_col_dims", 1}});
  EXPECT_EQ(to_text(op),
            "{Out=['y']} = mul(inputs={X=['x'], Y=['w']}, force = False, op_namescope = /, "
            "scale_y = [1.0], x_num_col_dims = 1)");
  EXPECT_EQ(to_text(raw(block, "fetch_barrier", {}, {}, {{"sub_block", BlockRef{0}}})),
            "fetch_barrier(inputs={}, sub_block = block[0])");
}

TEST(Print, BlocksAreBraced) {
  const auto program = Program::create();
  tensor(program->global_block(), "x", {2});
  raw(program->global_block(), "relu", {{"X", {"x"}}}, {{"Out", {"x"}}}, 0);
  program->create_block();
  EXPECT_EQ(to_text(*program),
            "{ // block 0\n"
            "    var x : LOD_TENSOR.shape(2,).dtype(float32).stop_gradient(False)\n"
            "\n"
            "    {Out=['x']} = relu(inputs={X=['x']}, op_role = 0)\n"
            "}\n"
            "{ // block 1\n"
            "\n"
            "}\n");
}

TEST(ProtoText, ShowsFieldsAsTheFormatNamesThem) {
  const auto program = Program::create();
  const Var& var = program->global_block().create_var({.name = "X", .shape = {-1, 3}});
  EXPECT_EQ(to_proto_text(var),
            "name: \"X\"\n"
            "type {\n"
            "  type: LOD_TENSOR\n"
            "  lod_tensor {\n"
            "    tensor {\n"
            "      data_type: FP32\n"
            "      dims: -1\n"
            "      dims: 3\n"
            "    }\n"
            "    lod_level: 0\n"
            "  }\n"
            "}\n"
            "persistable: false\n");
  const Op& op = raw(program->global_block(), "scale", {{"X", {"X"}}}, {}, {{"scale", 0.5f}});
  EXPECT_THAT(to_proto_text(op),
              HasSubstr("attrs {\n  name: \"scale\"\n  type: FLOAT\n  f: 0.5\n}"));
  EXPECT_THAT(to_proto_text(*program), HasSubstr("version {\n  version: 2004002\n}"));
  EXPECT_THAT(to_proto_text(program->global_block()), HasSubstr("parent_idx: -1\n"));
}

}  // namespace
}  // namespace trireme
