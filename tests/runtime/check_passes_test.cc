// check_passes finds the pass that changes a number.
#include "runtime/check_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckPasses, EveryPassGivesTheNumbersOfNone) {
  const auto main = Program::create(), startup = Program::create();
  {
    ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {1, 8, 8});
    Var& y = layers::data("y", {1}, {.dtype = DType::int64});
    Var& conv = layers::conv2d(x, {.num_filters = 4, .filter_size = {3}});
    Var& normal = layers::dropout(layers::batch_norm(conv, {.act = "relu"}), {.dropout_prob = 0.3});
    Var& out = layers::fc(normal, {.size = 3, .act = "softmax"});
    Var& loss = layers::mean(layers::cross_entropy(out, y));
    optimizer::Adam(0.01).minimize(loss);
  }
  Scope scope;
  Executor executor;
  executor.run(*startup, {}, {}, {.scope = &scope});
  Draw draw(4);
  const Feeds feeds = {{"x", cast(draw.uniform({5, 1, 8, 8}), DType::float32)},
                       {"y", draw.ints({5, 1}, 0, 2)}};
  const std::string parameter = main->parameters().front()->name();
  const Tensor before = scope.find(parameter)->tensor().clone();
  const auto checks = check_passes(*main, feeds, scope, 1e-6);
  EXPECT_EQ(checks.size(), pass_names().size() + 2);  // all, and as it runs
  for (const PassCheck& check : checks) EXPECT_TRUE(check.equal()) << to_text({check});
  EXPECT_EQ(max_abs_diff(before, scope.find(parameter)->tensor()), 0);
}

TEST(CheckPasses, TellsWhereAndByHowMuch) {
  const PassCheck differs{.pass = "some_pass",
                          .op = "relu",
                          .variable = "relu_0.tmp_0",
                          .line = SourceLine::here(),
                          .difference = 0.5};
  EXPECT_THAT(to_text({differs, PassCheck{.pass = "all"}}),
              AllOf(HasSubstr("some_pass: relu is the first op that differs, by 0.5 in "
                              "relu_0.tmp_0, asked for at "),
                    HasSubstr("check_passes_test.cc:"), HasSubstr("all: the same numbers")));
}

}  // namespace
}  // namespace trireme::testing
