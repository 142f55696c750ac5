// The documents' toy, built op by op: fc of size 10, mean, SGD.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/backward.h"
#include "ir/program.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

struct RunToy {
  std::shared_ptr<Program> main = Program::create();
  std::shared_ptr<Program> startup = Program::create();
  Scope scope;
  Executor executor;

  RunToy() {
    Block& block = main->global_block();
    block.create_var({.name = "X",
                      .shape = {Dim(), 1},
                      .stop_gradient = true,
                      .is_data = true,
                      .need_check_feed = true});
    for (Block* b : {&block, &startup->global_block()}) {
      b->create_parameter({.name = "w", .shape = {1, 10}}, {});
      b->create_parameter({.name = "b", .shape = {10}}, {});
      b->create_var({.name = "lr", .shape = {1}, .persistable = true});
    }
    for (const char* name : {"product", "hidden", "loss"})
      block.create_var({.name = name, .has_shape = false});
    block.append_op({"mul", {{"X", {"X"}}, {"Y", {"w"}}}, {{"Out", {"product"}}}, {}});
    block.append_op({"elementwise_add",
                     {{"X", {"product"}}, {"Y", {"b"}}},
                     {{"Out", {"hidden"}}},
                     {{"axis", 1}}});
    block.append_op({"mean", {{"X", {"hidden"}}}, {{"Out", {"loss"}}}, {}});
    for (const auto& [param, grad] : append_backward(block.var("loss"))) {
      block.append_op(
          {"sgd",
           {{"Param", {param->name()}}, {"Grad", {grad->name()}}, {"LearningRate", {"lr"}}},
           {{"ParamOut", {param->name()}}},
           {}});
    }
    fill("w", {1, 10}, 0.5f);
    fill("b", {10}, 0.25f);
    fill("lr", {1}, 0.1f);
  }

  void fill(const std::string& name, std::vector<int64_t> shape, float value) {
    startup->global_block().append_op({"fill_constant",
                                       {},
                                       {{"Out", {name}}},
                                       {{"shape", shape}, {"value", value}, {"dtype", 5}}});
  }
  float run(const Tensor& x) {
    return *executor.run_one(*main, {{"X", x}}, "loss", {.scope = &scope}).data<float>();
  }
};

TEST(RunToy, TrainsAsByHand) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  const Tensor x = floats({2, 1}, {1, 3});
  // loss = mean(x * 0.5 + 0.25) = 2 * 0.5 + 0.25
  EXPECT_FLOAT_EQ(toy.run(x), 1.25f);
  // dw = mean(x) / 10 = 0.2, db = 1 / 10; both times 0.1
  EXPECT_FLOAT_EQ(toy.scope.find("w")->tensor().data<float>()[3], 0.5f - 0.02f);
  EXPECT_FLOAT_EQ(toy.scope.find("b")->tensor().data<float>()[9], 0.25f - 0.01f);
  EXPECT_FLOAT_EQ(toy.run(x), 2 * 0.48f + 0.24f);
}

TEST(RunToy, AnotherBatchSizeBindsAgainWithoutCompiling) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  toy.run(floats({2, 1}, {1, 3}));
  const size_t compiles = toy.executor.counters().compiles, binds = toy.executor.counters().binds;
  toy.run(floats({3, 1}, {1, 2, 3}));
  EXPECT_EQ(toy.executor.counters().compiles, compiles);
  EXPECT_GT(toy.executor.counters().binds, binds);
  const size_t bound = toy.executor.counters().binds;
  toy.run(floats({3, 1}, {4, 5, 6}));
  EXPECT_EQ(toy.executor.counters().binds, bound);
}

TEST(RunToy, ABatchSizeSeenBeforeIsNotBoundAgain) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  const Tensor two = floats({2, 1}, {1, 3}), three = floats({3, 1}, {1, 2, 3});
  const float first = toy.run(two);
  toy.run(three);
  const size_t bound = toy.executor.counters().binds;
  // The weights only fall: with equal feeds, so does the loss.
  const float second = toy.run(two);
  EXPECT_LT(second, first);
  const float third = toy.run(three);
  EXPECT_LT(third, second);
  EXPECT_EQ(toy.executor.counters().binds, bound);
}

TEST(RunToy, ASteadyStepAllocatesOnlyWhatItHandsOut) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  const Tensor x = floats({2, 1}, {1, 3});
  for (int i = 0; i < 3; ++i) toy.run(x);
  const size_t before = allocation_count();
  for (int i = 0; i < 5; ++i) toy.run(x);
  EXPECT_EQ(allocation_count() - before, 5u);  // one loss each
}

// Plans are kept, and with them where their variables stood.
TEST(RunToy, AParameterThatWasErasedAndMadeAgainIsTheOneThatIsTrained) {
  RunToy toy;
  const Tensor x = floats({2, 1}, {1, 3});
  const auto start = [&] { toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope}); };
  start();
  EXPECT_FLOAT_EQ(toy.run(x), 1.25f);
  EXPECT_FLOAT_EQ(toy.run(x), 2 * 0.48f + 0.24f);
  toy.scope.erase({"w"});
  // Takes the memory that the old one had: who still writes there is seen.
  toy.scope.var("another").tensor() = filled(DType::float32, {1, 10}, 7);
  start();
  ASSERT_TRUE(toy.scope.find("w"));
  ASSERT_TRUE(toy.scope.find("w")->initialized());
  EXPECT_FLOAT_EQ(toy.run(x), 1.25f);
  EXPECT_FLOAT_EQ(toy.scope.find("w")->tensor().data<float>()[3], 0.5f - 0.02f);
  EXPECT_FLOAT_EQ(toy.scope.find("another")->tensor().data<float>()[3], 7);
}

TEST(RunToy, AnEditedProgramIsCompiledAgain) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  const Tensor x = floats({2, 1}, {1, 3});
  toy.run(x);
  Block& block = toy.main->global_block();
  block.create_var({.name = "twice", .has_shape = false});
  block.append_op({"scale", {{"X", {"loss"}}}, {{"Out", {"twice"}}}, {{"scale", 2.0f}}});
  const Tensor twice = toy.executor.run_one(*toy.main, {{"X", x}}, "twice", {.scope = &toy.scope});
  EXPECT_FLOAT_EQ(*twice.data<float>(), 2 * (2 * 0.48f + 0.24f));
}

TEST(RunToy, WithoutStartupTheErrorSaysSo) {
  RunToy toy;
  const std::string what = error_of([&] { toy.run(floats({2, 1}, {1, 3})); });
  EXPECT_THAT(what, HasSubstr("holds no value in this scope"));
  EXPECT_THAT(what, HasSubstr("run the startup program first"));
}

TEST(RunToy, AMissingFeedNamesTheVariableAndTheUserLine) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  const std::string what =
      error_of([&] { toy.executor.run(*toy.main, {}, {"loss"}, {.scope = &toy.scope}); });
  EXPECT_THAT(what, HasSubstr("in mul: it reads the data variable X, which is not fed"));
  EXPECT_THAT(what, HasSubstr("toy_test.cc"));
  EXPECT_THAT(what, HasSubstr("fix: add 'X' to feed"));
}

TEST(RunToy, AWrongFeedShowsBothSides) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  EXPECT_THAT(error_of([&] {
                toy.run(floats({2, 2}, {1, 2, 3, 4}));
              }),
              HasSubstr("declared float32 [-1, 1], fed float32 [2, 2]"));
  EXPECT_THAT(error_of([&] { toy.run(floats({2}, {1, 2})); }), HasSubstr("X has 1 dimensions"));
  EXPECT_THAT(error_of([&] { toy.run(longs({2, 1}, {1, 2})); }), HasSubstr("astype('float32')"));
}

TEST(RunToy, Float64IsConverted) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  EXPECT_FLOAT_EQ(toy.run(doubles({2, 1}, {1, 3})), 1.25f);
}

TEST(RunToy, AGradientAndAParameterCanBeFetchedTogether) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  const auto results = toy.executor.run(*toy.main, {{"X", floats({2, 1}, {1, 3})}},
                                        {"w@GRAD", "w", "w", "X"}, {.scope = &toy.scope});
  EXPECT_FLOAT_EQ(results[0].tensor().data<float>()[0], 0.2f);
  EXPECT_FLOAT_EQ(results[1].tensor().data<float>()[0], 0.48f);  // the last version
  EXPECT_FLOAT_EQ(results[2].tensor().data<float>()[0], 0.48f);
  EXPECT_FLOAT_EQ(results[3].tensor().data<float>()[1], 3.0f);
  // What was fetched is the caller's: writing it changes nothing here.
  results[1].tensor().data<float>()[0] = 7;
  EXPECT_FLOAT_EQ(toy.scope.find("w")->tensor().data<float>()[0], 0.48f);
}

TEST(RunToy, PruningRunsOnlyWhatTheFetchNeeds) {
  RunToy toy;
  toy.executor.run(*toy.startup, {}, {}, {.scope = &toy.scope});
  toy.executor.run(*toy.main, {{"X", floats({2, 1}, {1, 3})}}, {"loss"},
                   {.scope = &toy.scope, .use_prune = true});
  EXPECT_FLOAT_EQ(toy.scope.find("w")->tensor().data<float>()[0], 0.5f);
}

TEST(RunToy, AClosedExecutorRefuses) {
  RunToy toy;
  toy.executor.close();
  toy.executor.close();
  EXPECT_THAT(error_of([&] { toy.run(floats({2, 1}, {1, 3})); }), HasSubstr("closed"));
}

TEST(RunToy, AnUnknownFetchIsNamed) {
  RunToy toy;
  EXPECT_THAT(error_of([&] {
                toy.executor.run(*toy.main, {{"X", floats({2, 1}, {1, 3})}}, {"los"},
                                 {.scope = &toy.scope});
              }),
              HasSubstr("fetch_list names los"));
}

}  // namespace
}  // namespace trireme::testing
