// A step whose feeds keep their shapes asks for no memory.
#include <gtest/gtest.h>

#include "comm/local_group.h"
#include "comm/ring.h"
#include "core/lookups.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/compiled_program.h"
#include "runtime/executor.h"
#include "tests/runtime/heap.h"

namespace trireme::testing {
namespace {

struct Steady {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  Scope scope;
  Executor exe;
  Feeds feeds{{"x", filled(DType::float32, {10, 1}, 0.5)}};
  RunOptions options{.scope = &scope, .threads = 1};
  std::string loss;

  template <class Minimize>
  explicit Steady(Minimize minimize) {
    const ProgramGuard guard(main, startup);
    Var& made = layers::mean(
        layers::square(layers::fc(layers::data("x", {1}), {.size = 10, .act = "relu"})));
    minimize(made);
    loss = made.name();
    exe.run(*startup, {}, {}, options);
  }
  size_t heap_calls_of_a_step(const std::vector<std::string>& fetches) {
    for (int i = 0; i < 3; ++i) exe.run(*main, feeds, fetches, options);
    const size_t before = heap_calls();
    exe.run(*main, feeds, fetches, options);
    return heap_calls() - before;
  }
};

TEST(SteadyStep, AsksForNoMemory) {
  Steady sgd([](Var& loss) { optimizer::Sgd(0.01).minimize(loss); });
  EXPECT_EQ(sgd.heap_calls_of_a_step({}), 0u);
  Steady adam([](Var& loss) { optimizer::Adam(0.01).minimize(loss); });
  EXPECT_EQ(adam.heap_calls_of_a_step({}), 0u);
}

TEST(SteadyStep, OfACompiledProgramAsksForNoMemory) {
  Steady sgd([](Var& loss) { optimizer::Sgd(0.01).minimize(loss); });
  CompiledProgram alone(sgd.main), one(sgd.main), three(sgd.main);
  one.with_data_parallel({.places = {cpu_place()}});
  three.with_data_parallel({.places = std::vector<Place>(3, cpu_place())});
  for (CompiledProgram* compiled : {&alone, &one, &three}) {
    for (int i = 0; i < 3; ++i) compiled->run(sgd.exe, sgd.feeds, {}, sgd.options);
    const size_t before = heap_calls();
    compiled->run(sgd.exe, sgd.feeds, {}, sgd.options);
    EXPECT_EQ(heap_calls(), before) << compiled->devices() << " devices";
  }
}

// Where no kernel takes half precision, the one for float32 runs between two conversions.
TEST(SteadyStep, InHalfPrecisionAsksForNoMemory) {
  auto main = Program::create(), startup = Program::create();
  {
    const ProgramGuard guard(main, startup);
    Var& half = layers::cast(layers::data("x", {8}), DType::float16);
    Var& loss = layers::mean(layers::cast(layers::softmax(half), DType::float32));
    loss.set_persistable(true);
  }
  Scope scope;
  Executor exe;
  const Feeds feeds{{"x", filled(DType::float32, {4, 8}, 0.5)}};
  const RunOptions options{.scope = &scope, .threads = 1};
  for (int i = 0; i < 3; ++i) exe.run(*main, feeds, {}, options);
  const size_t before = heap_calls();
  exe.run(*main, feeds, {}, options);
  EXPECT_EQ(heap_calls(), before);
  EXPECT_NE(exe.report(*main).find("softmax"), std::string::npos);
}

// What programs exchange by rings, too: here with a rank that is alone.
TEST(SteadyStep, ThatExchangesByARingLooksNothingUpAndAsksForNoMemory) {
  Steady alone([](Var& loss) {
    optimizer::Sgd sgd(0.01);
    const ParamGrads gradients = sgd.backward(loss);
    for (const auto& [param, gradient] : gradients) {
      default_main_program().global_block().append_op({.type = "c_allreduce_sum",
                                                       .inputs = {{"X", {gradient->name()}}},
                                                       .outputs = {{"Out", {gradient->name()}}}});
    }
    sgd.apply_gradients(gradients);
  });
  std::shared_ptr<Group> group = std::move(make_local_group(1).front());
  alone.scope.var(ring_name(0))
      .set_host(std::make_shared<Ring>(group, std::vector<std::string>{"10.0.0.0:1"}));
  EXPECT_EQ(alone.heap_calls_of_a_step({}), 0u);
  const size_t before = name_lookups();
  alone.exe.run(*alone.main, alone.feeds, {}, alone.options);
  EXPECT_EQ(name_lookups(), before);
}

// The list, the array, its buffer and its owner.
TEST(SteadyStep, AFetchCostsOnlyWhatTheCallerGets) {
  Steady sgd([](Var& loss) { optimizer::Sgd(0.01).minimize(loss); });
  EXPECT_LE(sgd.heap_calls_of_a_step({sgd.loss}), 4u);
}

}  // namespace
}  // namespace trireme::testing
