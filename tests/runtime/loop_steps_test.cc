// A steady step of programs with loops and branches: no memory asked for.
#include <gtest/gtest.h>

#include "tests/runtime/heap.h"
#include "tests/runtime/loop_nets.h"

namespace trireme::testing {
namespace {

std::vector<LoopNet> loop_nets() {
  return {
      {.name = "While", .build = [](Var& x) -> Var& { return looped(x, 5, dense); }},
      {.name = "WhileInWhile",
       .build = [](Var& x) -> Var& {
         return looped(x, 3, [](Var& h) -> Var& { return looped(h, 4, dense); });
       }},
      {.name = "WhileOverAnArray", .build = through_an_array},
      {.name = "StaticRnn",
       .build = static_rnn,
       .x = varied({5, 4, kWidth}),
       .shape = {5, 4, kWidth}},
      {.name = "WideStaticRnn",
       .build = wide_rnn,
       .x = varied({5, 40, kWidth}),
       .shape = {5, 40, kWidth}},
      {.name = "StaticRnnOfWords",
       .build = static_rnn_of_words,
       .x = varied({5, 4, kWidth}),
       .shape = {5, 4, kWidth}},
      {.name = "StaticRnnInStaticRnn", .build = rnn_in_rnn},
      {.name = "CondInStaticRnn", .build = cond_in_rnn},
      {.name = "DynamicRnn", .build = dynamic_rnn, .x = sequences({4, 4, 4}), .lod_level = 1},
      {.name = "DynamicRnnOfSeveralLengths",
       .build = dynamic_rnn,
       .x = sequences({4, 1, 2}),
       .lod_level = 1},
      {.name = "IfElse", .build = by_row},
      {.name = "Cond", .build = by_number},
  };
}

size_t heap_calls_of_a_step(LoopProgram&& program, const Tensor& x) {
  const Feeds feeds{{"x", x}};
  const auto run = [&] { program.exe.run(*program.main, feeds, {}, program.options); };
  for (int i = 0; i < 2; ++i) run();
  const size_t before = heap_calls();
  run();
  return heap_calls() - before;
}

class LoopSteps : public ::testing::TestWithParam<LoopNet> {};

TEST_P(LoopSteps, AskForNoMemory) {
  EXPECT_EQ(heap_calls_of_a_step({GetParam(), false}, GetParam().x), 0u) << "forward";
  EXPECT_EQ(heap_calls_of_a_step({GetParam(), true}, GetParam().x), 0u) << "training";
}

// Wherever a sequence ends, passes have fewer rows; the next step has other sequences. Both come
// back to shapes that were there before.
TEST(LoopStepsOfChangingShapes, AskForNoMemoryOnceTheyHaveSeenThem) {
  LoopProgram net({.name = "", .build = dynamic_rnn, .lod_level = 1}, true);
  const Feeds some{{"x", sequences({4, 1, 2})}}, others{{"x", sequences({3, 3})}};
  const auto both = [&] {
    for (const Feeds* feeds : {&some, &others}) net.exe.run(*net.main, *feeds, {}, net.options);
  };
  for (int i = 0; i < 3; ++i) both();
  const size_t before = heap_calls();
  both();
  EXPECT_EQ(heap_calls() - before, 0u);
}

// Of shapes that never come back, only the last ones are remembered.
TEST(LoopStepsOfChangingShapes, KeepNoMoreThanTheLastShapes) {
  LoopProgram net({.name = "", .build = dynamic_rnn, .lod_level = 1}, false);
  const auto run = [&](int64_t from, int64_t to) {  // always twelve passes
    for (int64_t i = from; i < to; ++i) net.run(sequences({12, 1 + i % 12, 1 + i / 12}));
    return live_heap_blocks();
  };
  const size_t full = run(0, 80), later = run(80, 144);
  EXPECT_LT(static_cast<double>(later), 1.1 * static_cast<double>(full));
}

INSTANTIATE_TEST_SUITE_P(All, LoopSteps, ::testing::ValuesIn(loop_nets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::testing
