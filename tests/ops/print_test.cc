// What print, assert and py_func do to a run.
#include <gmock/gmock.h>

#include "ir/schema.h"
#include "ops/host/py_func.h"
#include "tests/support/op_record.h"
#include "tests/support/op_runner.h"
#include "tests/support/scope_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string printed(const std::function<void()>& action) {
  ::testing::internal::CaptureStdout();
  action();
  return ::testing::internal::GetCapturedStdout();
}

TEST(Print, ShowsNameMessageLodShapeTypeAndData) {
  Tensor x = floats({3, 1}, {1, 2.5f, 3});
  x.set_lod({{0, 1, 3}});
  Tensor out;
  const std::string text = printed([&] {
    out = run_op("print", {{"In", x}}, {{"message", std::string("hello")}, {"summarize", 2}});
  });
  EXPECT_EQ(text,
            "Variable: In_0\n  - message: hello\n  - lod: {{0, 1, 3}}\n  - place: CPUPlace\n"
            "  - shape: [3, 1]\n  - layout: NCHW\n  - dtype: float\n  - data: [1 2.5]\n");
  EXPECT_THAT(numbers(out), ElementsAre(1, 2.5, 3));
  EXPECT_EQ(out.lod(), x.lod());
}

TEST(Print, LeavesOutWhatIsNotWanted) {
  const std::string text = printed([&] {
    run_op("print", {{"In", longs({2}, {7, -8})}},
           {{"print_tensor_name", false},
            {"print_tensor_lod", false},
            {"print_tensor_shape", false},
            {"print_tensor_layout", false},
            {"print_tensor_type", false}});
  });
  EXPECT_EQ(text, "  - place: CPUPlace\n  - data: [7 -8]\n");
}

TEST(Print, FirstNCountsOverRuns) {
  ScopeRunner runner;
  std::string text;
  for (const int rows : {1, 1, 2, 1}) {  // another shape makes another plan, not another count
    runner.set("x", filled(DType::float32, {rows}, 1));
    text += printed([&] { runner.run("print", {{"In", "x"}}, {{"Out", "y"}}, {{"first_n", 3}}); });
  }
  size_t count = 0;
  for (size_t at = text.find("Variable"); at != std::string::npos;
       at = text.find("Variable", at + 1))
    ++count;
  EXPECT_EQ(count, 3u);
}

TEST(Print, AGradientIsPrintedInTheBackwardPhaseAlone) {
  const Tensor x = floats({1}, {1});
  EXPECT_EQ(printed([&] {
              run_op("print", {{"In", x}}, {{"print_phase", std::string("BACKWARD")}});
            }),
            "");
  EXPECT_NE(printed([&] {
              run_op("print", {{"In", x}},
                     {{"print_phase", std::string("BACKWARD")}, {"is_forward", false}});
            }),
            "");
  EXPECT_THAT(error_of([&] {
                run_op("print", {{"In", x}}, {{"print_phase", std::string("both")}});
              }),
              HasSubstr("'FORWARD', 'BACKWARD', 'BOTH'"));
}

TEST(Assert, ShowsItsDataWhenTheConditionIsFalse) {
  const auto run = [](bool holds) {
    run_op(OpCall{
        .type = "assert",
        .inputs = {{"Cond", {make_tensor<bool>({1}, {holds})}}, {"Data", {longs({3}, {4, 5, 6})}}},
        .attrs = {{"summarize", int64_t{2}}}});
  };
  run(true);  // the run goes on
  const std::string text = error_of([&] { run(false); });
  EXPECT_TRUE(shows("assert", text.find("the condition Cond_0 is false") != text.npos)) << text;
  EXPECT_THAT(text, HasSubstr("[4 5]"));
}

TEST(PyFunc, CallsTheFunctionWithItsOperands) {
  const int id = register_py_func([](const auto& ins, const auto& outs) {
    outs[0]->tensor() = longs({1}, {static_cast<int64_t>(ins.size())});
    outs[1]->tensor() = ins[1]->tensor().clone();
  });
  const Tensors out = run_op(OpCall{.type = "py_func",
                                    .inputs = {{"X", {floats({1}, {1}), floats({2}, {3, 4})}}},
                                    .attrs = {{"forward_callable_id", id}},
                                    .out_counts = {{"Out", 2}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(2));
  EXPECT_THAT(numbers(out.at("Out")[1]), ElementsAre(3, 4));
}

TEST(PyFunc, TheGradientReadsAllButTheSkipped) {
  const auto program = Program::create();
  Block& block = program->global_block();
  for (const char* name : {"a", "b", "y"}) block.create_var({.name = name, .shape = {1}});
  const Op& op =
      block.append_op({.type = "py_func",
                       .inputs = {{"X", {"a", "b"}}},
                       .outputs = {{"Out", {"y"}}},
                       .attrs = {{"backward_callable_id", 5},
                                 {"backward_skip_vars", std::vector<std::string>{"a"}}}});
  GradMaker maker(op, [](const std::string& name) { return name == "b"; });
  const std::vector<OpSpec> made = op_table().get("py_func").make_grad(maker);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].type, "py_func");
  EXPECT_THAT(made[0].inputs.at("X"), ElementsAre("b", "y", "y@GRAD"));
  EXPECT_THAT(made[0].outputs.at("Out"), ElementsAre("@EMPTY@", "b@GRAD"));
  EXPECT_EQ(attr_as<int32_t>(made[0].attrs.at("forward_callable_id"), ""), 5);
}

TEST(PyFunc, AnUnknownFunctionIsNamed) {
  EXPECT_THAT(error_of([] {
                run_op(OpCall{.type = "py_func",
                              .inputs = {{"X", {floats({1}, {1})}}},
                              .attrs = {{"forward_callable_id", 123456}}});
              }),
              HasSubstr("callable 123456 is not registered in this process"));
}

}  // namespace
}  // namespace trireme::testing
