// What a step needs is told before it runs, sub-blocks included, and is what it then takes.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/compiled_program.h"
#include "tests/runtime/loop_nets.h"

namespace trireme::testing {
namespace {

// A rate that a Switch over the step sets.
Var& by_case(Var& x) {
  Var& rate = layers::fill_constant({1}, DType::float32, 1.0);
  layers::Switch cases;
  cases.when(layers::less_than(number(3), number(2)),
             [&] { layers::assign(layers::fill_constant({1}, DType::float32, 0.5), &rate); });
  cases.otherwise([&] { layers::assign(layers::fill_constant({1}, DType::float32, 0.25), &rate); });
  return layers::elementwise_mul(dense(x), rate);
}

struct MemoryCase {
  LoopNet net;
  bool forward, training;  // whether all is known before the run
};

std::vector<MemoryCase> memory_cases() {
  const auto loop = [](int64_t passes) {
    return [passes](Var& x) -> Var& { return looped(x, passes, dense); };
  };
  const auto loops = [](Var& x) -> Var& {
    return looped(x, 3, [](Var& h) -> Var& { return looped(h, 4, dense); });
  };
  const std::vector<int64_t> words = {5, 4, kWidth};
  return {
      // How often it goes round, and so how much is kept for the gradient, is data.
      {{.name = "While", .build = loop(5)}, true, false},
      {{.name = "WhileInWhile", .build = loops}, true, false},
      {{.name = "WhileOverAnArray", .build = through_an_array}, false, false},
      {{.name = "StaticRnn", .build = static_rnn, .x = varied(Shape(words)), .shape = words},
       true,
       true},
      {{.name = "WideStaticRnn",
        .build = wide_rnn,
        .x = varied({5, 40, kWidth}),
        .shape = {5, 40, kWidth}},
       true,
       true},
      {{.name = "StaticRnnInStaticRnn", .build = rnn_in_rnn}, true, true},
      {{.name = "CondInStaticRnn", .build = cond_in_rnn}, true, true},
      // The gradient's rows add up from pass to pass.
      {{.name = "StaticRnnOfWords",
        .build = static_rnn_of_words,
        .x = varied(Shape(words)),
        .shape = words},
       true,
       false},
      {{.name = "Cond", .build = by_number}, true, true},
      {{.name = "Switch", .build = by_case}, true, true},
      // Which rows go which way, and where sequences end, is data.
      {{.name = "IfElse", .build = by_row}, false, false},
      {{.name = "DynamicRnn", .build = dynamic_rnn, .x = sequences({4, 1, 2}), .lod_level = 1},
       false,
       false},
  };
}

size_t sum_of(const PlanMemory& told) { return told.arena + told.scratch + told.own; }

// Bytes that were allocated beside the variables of the scope.
size_t bytes_besides(const LoopProgram& program) {
  size_t held = 0;
  for (const Var* var : program.main->global_block().vars()) {
    const Variable* made = var->persistable() ? program.scope.find(var->name()) : nullptr;
    if (made && made->initialized()) held += made->tensor().byte_size();
  }
  return allocated_bytes() - held;
}

class MemoryAhead : public ::testing::TestWithParam<MemoryCase> {};

TEST_P(MemoryAhead, IsWhatTheStepTakes) {
  for (const bool trains : {false, true}) {
    LoopProgram program(GetParam().net, trains);
    const std::vector<Feeds> feeds{{{"x", GetParam().net.x}}};
    const auto tell = [&] {
      return program.exe.prepare(*program.main, feeds, {}, {}, program.options);
    };
    const size_t before = bytes_besides(program);
    const PlanMemory told = tell();
    EXPECT_EQ(!told.partly, trains ? GetParam().training : GetParam().forward) << trains;
    EXPECT_EQ(sum_of(told), bytes_besides(program) - before) << trains;
    const std::string digest = program.exe.digest(*program.main);
    EXPECT_FALSE(digest.empty());
    for (int i = 0; i < 2; ++i) program.run(GetParam().net.x);
    const PlanMemory taken = tell();
    EXPECT_FALSE(taken.partly) << trains;
    EXPECT_EQ(sum_of(taken), bytes_besides(program) - before) << trains;
    EXPECT_EQ(program.exe.digest(*program.main), digest) << trains;
    if (told.partly) continue;
    EXPECT_EQ(sum_of(told), sum_of(taken)) << trains;
    EXPECT_LE(static_cast<double>(told.arena), 1.05 * static_cast<double>(told.live)) << trains;
  }
}

TEST_P(MemoryAhead, IsWhatTwoDevicesTake) {
  const MemoryCase& given = GetParam();
  LoopProgram program(given.net, true);
  CompiledProgram compiled(program.main);
  compiled.with_data_parallel({.places = {cpu_place(), cpu_place()}});
  const Feeds feeds{{"x", given.net.x}};
  const size_t before = bytes_besides(program);
  const PlanMemory told = compiled.prepare(program.exe, feeds, {}, program.options);
  EXPECT_EQ(!told.partly, given.training);
  EXPECT_EQ(sum_of(told), bytes_besides(program) - before);
  for (int i = 0; i < 2; ++i) compiled.run(program.exe, feeds, {}, program.options);
  if (!told.partly) {
    EXPECT_EQ(sum_of(told), bytes_besides(program) - before);
  }
}

// A fetched value has memory of its own: where the others stand changes no number.
TEST_P(MemoryAhead, DoesNotChangeANumber) {
  LoopProgram shares(GetParam().net, true), apart(GetParam().net, true);
  std::vector<std::string> all;
  for (const Var* var : apart.main->global_block().vars()) {
    if (var->type() != VarType::lod_tensor || var->persistable() || var->is_data()) continue;
    all.push_back(var->name());
  }
  ASSERT_GT(all.size(), 5u);
  for (const Var* var : shares.main->global_block().vars()) {
    const Variable* made = var->persistable() ? shares.scope.find(var->name()) : nullptr;
    if (made && made->initialized()) apart.scope.var(var->name()).copy_from(*made);
  }
  for (int i = 0; i < 3; ++i) {
    shares.run(GetParam().net.x);
    apart.exe.run(*apart.main, {{"x", GetParam().net.x}}, all, apart.options);
  }
  size_t compared = 0;
  for (const Var* var : shares.main->global_block().vars()) {
    const Variable* a = var->persistable() ? shares.scope.find(var->name()) : nullptr;
    if (!a || a->kind() != Kind::dense || !a->initialized()) continue;
    const Tensor &one = a->tensor(), &other = apart.scope.find(var->name())->tensor();
    EXPECT_EQ(std::memcmp(one.raw(), other.raw(), one.byte_size()), 0) << var->name();
    ++compared;
  }
  EXPECT_GE(compared, 3u);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryAhead, ::testing::ValuesIn(memory_cases()),
                         [](const auto& info) { return info.param.net.name; });

// A branch that is wrong for these shapes but never taken stops nothing.
TEST(MemoryAheadOfBranches, AWrongOneThatIsNotTakenStopsNothing) {
  LoopNet net{.name = "", .build = [](Var& x) -> Var& {
                Var& three = layers::fill_constant({3, kWidth}, DType::float32, 1.0);
                return *layers::cond(
                    layers::less_than(number(2), number(1)),
                    [&] { return std::vector<Var*>{&(x + three)}; },
                    [&] { return std::vector<Var*>{&layers::scale(x)}; })[0];
              }};
  LoopProgram program(net, true);
  EXPECT_TRUE(program.exe.prepare(*program.main, {{{"x", net.x}}}, {}, {}, program.options).partly);
  program.run(net.x);  // four rows, not three
  program.run(varied({3, kWidth}));
  program.run(net.x);
}

}  // namespace
}  // namespace trireme::testing
