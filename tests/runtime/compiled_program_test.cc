// Compiled programs on one and several devices, as C++ users run them.
#include "runtime/compiled_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/warning.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

struct Toy {
  std::shared_ptr<Program> main = Program::create();
  std::shared_ptr<Program> startup = Program::create();
  std::shared_ptr<Program> test;
  std::string loss;
  Scope scope;
  Executor executor;

  Toy() {
    ProgramGuard guard(main, startup);
    Var& value = layers::mean(layers::fc(layers::data("X", {1}), {.size = 10}));
    loss = value.name();
    test = clone(*main, true);
    optimizer::Sgd(0.01).minimize(value);
    executor.run(*startup, {}, {}, {.scope = &scope});
  }
  CompiledProgram parallel(const std::shared_ptr<Program>& program, int places) {
    CompiledProgram compiled(program);
    compiled.with_data_parallel({.loss_name = program == main ? loss : "",
                                 .places = std::vector<Place>(static_cast<size_t>(places))});
    return compiled;
  }
};

TEST(CompiledProgram, SplitsADictAndGivesALossPerDevice) {
  Toy toy;
  CompiledProgram compiled = toy.parallel(toy.main, 2);
  const auto results = compiled.run(toy.executor, Feeds{{"X", floats({3, 1}, {1, 2, 3})}},
                                    {toy.loss}, {.scope = &toy.scope});
  EXPECT_EQ(results[0].by_device.size(), 2u);
}

TEST(CompiledProgram, TestSeesTheTrainedParametersWithoutSharing) {
  Toy toy;
  CompiledProgram train = toy.parallel(toy.main, 2), test = toy.parallel(toy.test, 2);
  const Feeds feeds = {{"X", floats({4, 1}, {1, 2, 3, 4})}};
  const auto loss = [&](CompiledProgram& program) {
    const auto results = program.run(toy.executor, feeds, {toy.loss}, {.scope = &toy.scope});
    return element_as_double(results[0].by_device[1].tensor(), 0);
  };
  const double before = loss(test);
  loss(train);
  EXPECT_LT(loss(test), before);
}

TEST(CompiledProgram, TrainingNeedsASamplePerDeviceTestingDoesNot) {
  Toy toy;
  CompiledProgram train = toy.parallel(toy.main, 4), test = toy.parallel(toy.test, 4);
  const Feeds feeds = {{"X", floats({2, 1}, {1, 2})}};
  EXPECT_THAT(error_of([&] { train.run(toy.executor, feeds, {toy.loss}, {.scope = &toy.scope}); }),
              HasSubstr("2 samples for 4 devices"));
  EXPECT_EQ(test.run(toy.executor, feeds, {toy.loss}, {.scope = &toy.scope})[0].by_device.size(),
            2u);
}

TEST(CompiledProgram, AListHasOneDictPerDevice) {
  Toy toy;
  CompiledProgram compiled = toy.parallel(toy.main, 2);
  const Feeds one = {{"X", floats({1, 1}, {1})}};
  EXPECT_THAT(error_of([&] {
                compiled.run(toy.executor, std::vector<Feeds>{one}, {toy.loss},
                             {.scope = &toy.scope});
              }),
              HasSubstr("feed is a list of 1 for 2 devices"));
}

TEST(CompiledProgram, CustomizedTakesTheLossGradientFromTheFeed) {
  Toy toy;
  BuildStrategy build;
  build.gradient_scale_strategy = GradientScaleStrategy::customized;
  CompiledProgram compiled(toy.main);
  compiled.with_data_parallel(
      {.loss_name = toy.loss, .build_strategy = build, .places = {Place{}, Place{}}});
  const Feeds x = {{"X", floats({2, 1}, {1, 3})}};
  EXPECT_THAT(error_of([&] { compiled.run(toy.executor, x, {}, {.scope = &toy.scope}); }),
              HasSubstr("is not fed"));
  Feeds both = x;
  both[grad_name(toy.loss)] = floats({2}, {0, 0});
  const Tensor before = toy.scope.find(toy.main->parameters()[0]->name())->tensor().clone();
  compiled.run(toy.executor, both, {}, {.scope = &toy.scope});
  EXPECT_EQ(max_abs_diff(before, toy.scope.find(toy.main->parameters()[0]->name())->tensor()), 0);
}

TEST(CompiledProgram, AWrongLossNameIsRefused) {
  Toy toy;
  CompiledProgram compiled(toy.main);
  EXPECT_THAT(error_of([&] { compiled.with_data_parallel({.loss_name = "other"}); }),
              HasSubstr("loss_name is other, but the gradients start from " + toy.loss));
}

TEST(CompiledProgram, TwiceDataParallelIsRefused) {
  Toy toy;
  CompiledProgram compiled = toy.parallel(toy.main, 2);
  EXPECT_THAT(error_of([&] { compiled.with_data_parallel({.loss_name = toy.loss}); }),
              HasSubstr("was called before"));
}

TEST(CompiledProgram, DroppingTemporariesChangesNoNumber) {
  Toy toy;
  CompiledProgram compiled = toy.parallel(toy.main, 2);
  const Feeds feeds = {{"X", floats({4, 1}, {1, 2, 3, 4})}};
  toy.executor.drop_temporaries(*toy.main);
  compiled.run(toy.executor, feeds, {toy.loss}, {.scope = &toy.scope});
  toy.executor.drop_temporaries(*toy.main);
  EXPECT_NO_THROW(compiled.run(toy.executor, feeds, {toy.loss}, {.scope = &toy.scope}));
}

TEST(CompiledProgram, ATestProgramThatWritesParametersWarnsWithTheLine) {
  Toy toy;
  const auto program = clone(*toy.test, false);
  const std::string name = toy.main->parameters()[0]->name();
  program->global_block().append_op({.type = "scale",
                                     .inputs = {{"X", {name}}},
                                     .outputs = {{"Out", {name}}},
                                     .attrs = {{"scale", 0.5f}}});
  std::string said;
  set_warning_sink([&](const std::string& text) { said += text; });
  toy.parallel(program, 2);
  set_warning_sink({});
  EXPECT_THAT(said, HasSubstr("scale writes the parameter " + name));
  EXPECT_THAT(said, HasSubstr("compiled_program_test.cc:"));
}

TEST(CompiledProgram, APersistableFedByADictGoesToEveryDevice) {
  Toy toy;
  CompiledProgram compiled = toy.parallel(toy.main, 2);
  const std::string name = toy.main->parameters()[0]->name();
  const Tensor fed = floats({1, 10}, std::vector<float>(10, 2.0f));
  const auto results = compiled.run(toy.executor, Feeds{{"X", floats({2, 1}, {1, 3})}, {name, fed}},
                                    {toy.loss}, {.scope = &toy.scope});
  EXPECT_FLOAT_EQ(results[0].by_device[1].tensor().data<float>()[0], 6);
  EXPECT_EQ(results[0].shares, (std::vector<double>{0.5, 0.5}));
}

TEST(Strategy, EveryFieldHasAnAnswerAndRefusalsSayWhy) {
  EXPECT_EQ(explain(BuildStrategy()).size(), 34u);
  EXPECT_EQ(explain(ExecutionStrategy()).size(), 9u);
  for (const Knob& knob : explain(BuildStrategy())) {
    EXPECT_FALSE(knob.why.empty()) << knob.name;
    EXPECT_NE(knob.use, KnobUse::refused) << knob.name << ": a default must be possible";
  }
  BuildStrategy build;
  build.async_mode = true;
  EXPECT_THAT(error_of([&] { check(build); }), HasSubstr("BuildStrategy.async_mode = True: "));
}

}  // namespace
}  // namespace trireme::testing
