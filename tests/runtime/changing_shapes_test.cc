// Shapes that come and go: what a frame remembers of them changes no number.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/runtime/loop_nets.h"

namespace trireme::testing {
namespace {

Var& image_net(Var& x) {
  Var& image = layers::reshape(x, {-1, kWidth, 1, 1});
  Var& map = layers::conv2d(layers::concat({image, image, image}, 2),
                            {.num_filters = 4, .filter_size = {2, 1}, .act = "relu"});
  return layers::batch_norm(layers::dropout(map, {.dropout_prob = 0.3, .seed = 7}));
}

Var& pooled_words(Var& x) { return dense(layers::sequence_pool(layers::tanh(x), "sqrt")); }

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
  std::mt19937 random(11);
  for (int step = 0; step < 25; ++step) {
    std::vector<int64_t> lengths(1 + random() % 4);
    for (int64_t& length : lengths) length = 1 + random() % 3;
    const Tensor x = net.lod_level > 0 ? sequences(lengths) : varied({lengths[0] + 1, kWidth});
    remembers.run(x);
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
  EXPECT_LT(remembers.exe.counters().binds, 25u * 4);
}

INSTANTIATE_TEST_SUITE_P(
    All, ChangingSteps,
    ::testing::Values(LoopNet{.name = "While",
                              .build = [](Var& x) -> Var& { return looped(x, 3, dense); }},
                      LoopNet{.name = "WhileOverAnArray", .build = through_an_array},
                      LoopNet{.name = "DynamicRnn", .build = dynamic_rnn, .lod_level = 1},
                      LoopNet{.name = "IfElse", .build = by_row},
                      LoopNet{.name = "Cond", .build = by_number},
                      LoopNet{.name = "Images", .build = image_net},
                      LoopNet{.name = "Sequences", .build = pooled_words, .lod_level = 1}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::testing
