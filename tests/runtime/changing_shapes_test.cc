// Shapes that come and go: what a frame remembers of them changes no number.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/runtime/loop_nets.h"
#include "tests/support/seed.h"

namespace trireme::testing {
namespace {

Var& image_net(Var& x) {
  Var& image = layers::reshape(x, {-1, kWidth, 1, 1});
  Var& map = layers::conv2d(layers::concat({image, image, image}, 2),
                            {.num_filters = 4, .filter_size = {2, 1}, .act = "relu"});
  return layers::batch_norm(layers::dropout(map, {.dropout_prob = 0.3, .seed = 7}));
}

Var& pooled_words(Var& x) { return dense(layers::sequence_pool(layers::tanh(x), "sqrt")); }

// One row stays one row from iteration to iteration, and what they leave is known ahead; of
// several, the state grows with the first iteration. What is left has one shape.
Var& sometimes_known_ahead(Var& x) {
  Var& words = three_of(dense(layers::slice(x, {0}, {1}, {100})));
  Var& first = layers::fill_constant({1, kWidth}, DType::float32, 0.5);
  layers::StaticRNN rnn;
  rnn.step([&] {
    Var& word = rnn.step_input(words);
    Var& before = rnn.memory({.init = &first});
    Var& next = layers::tanh(word + before);
    rnn.update_memory(before, next);
    rnn.step_output(layers::reduce_mean(next, {.dim = {0}, .keep_dim = true}));
  });
  rnn()[0]->set_stop_gradient(true);  // a state that grows has no gradient
  return dense(*rnn()[0]);
}

// Feeds of sizes that come and go, in an executor that remembers them and in ones that never saw
// any: not one bit of the weights differs.
class ChangingSteps : public ::testing::TestWithParam<LoopNet> {};

TEST_P(ChangingSteps, RememberedShapesGiveTheNumbersOfFreshOnes) {
  const LoopNet& net = GetParam();
  LoopProgram remembers(net, true);
  Scope fresh_scope;
  std::vector<std::string> variables;
  for (const Var* var : remembers.main->global_block().vars()) {
    if (var->persistable() && remembers.scope.find(var->name())) variables.push_back(var->name());
  }
  ASSERT_FALSE(variables.empty());
  for (const std::string& name : variables) {
    const Variable& variable = *remembers.scope.find(name);
    if (variable.initialized()) fresh_scope.var(name).copy_from(variable);
  }
  fresh_scope.step() = remembers.scope.step().load();
  std::mt19937 random(static_cast<uint32_t>(test_seed()));
  Tensor last;
  for (int step = 0; step < 25; ++step) {
    std::vector<int64_t> lengths(1 + random() % 4);
    for (int64_t& length : lengths) length = 1 + random() % 3;
    const Tensor x = net.lod_level > 0 ? sequences(lengths) : varied({lengths[0] + 1, kWidth});
    remembers.run(last = x);
    Executor fresh;
    fresh.run(*remembers.main, {{"x", x}}, {}, {.scope = &fresh_scope, .threads = 1});
    for (const std::string& name : variables) {
      const Variable& a = *remembers.scope.find(name);
      if (!a.initialized()) continue;
      const Tensor &kept = a.tensor(), &made = fresh_scope.find(name)->tensor();
      ASSERT_EQ(kept.shape(), made.shape()) << name;
      ASSERT_EQ(std::memcmp(kept.raw(), made.raw(), kept.byte_size()), 0)
          << name << " in step " << step;
    }
  }
  const uint64_t binds = remembers.exe.counters().binds;
  remembers.run(last);
  EXPECT_EQ(remembers.exe.counters().binds, binds) << "the shapes of the step before";
}

// What stood in the arena while it was known ahead has memory of its own when it is not.
TEST(ChangingForesight, LeavesNothingBehindInTheArena) {
  const LoopNet net{.name = "", .build = sometimes_known_ahead};
  const auto own_after = [&](const std::vector<int64_t>& rows) {
    LoopProgram program(net, false);
    for (int64_t n : rows) program.run(varied({n, kWidth}));
    const std::vector<Feeds> feeds{{{"x", varied({rows.back(), kWidth})}}};
    return program.exe.prepare(*program.main, feeds, {}, {}, program.options).own;
  };
  EXPECT_GT(own_after({4}), own_after({2})) << "one row is known ahead, three are not";
  EXPECT_GE(own_after({2, 4}), own_after({4}));
  EXPECT_GE(own_after({2, 4, 2, 4}), own_after({4}));
}

INSTANTIATE_TEST_SUITE_P(
    All, ChangingSteps,
    ::testing::Values(
        LoopNet{.name = "While", .build = [](Var& x) -> Var& { return looped(x, 3, dense); }},
        LoopNet{.name = "WhileOverAnArray", .build = through_an_array},
        LoopNet{.name = "DynamicRnn", .build = dynamic_rnn, .lod_level = 1},
        LoopNet{.name = "IfElse", .build = by_row}, LoopNet{.name = "Cond", .build = by_number},
        LoopNet{.name = "StaticRnn",
                .build = [](Var& x) -> Var& { return static_rnn(three_of(x)); }},
        LoopNet{.name = "StaticRnnInStaticRnn", .build = rnn_in_rnn},
        LoopNet{.name = "CondInStaticRnn", .build = cond_in_rnn},
        LoopNet{.name = "StaticRnnForeseenForSomeShapes", .build = sometimes_known_ahead},
        LoopNet{.name = "Images", .build = image_net},
        LoopNet{.name = "Sequences", .build = pooled_words, .lod_level = 1}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::testing
