// sum_after_loops: which gradients become one product behind a loop, and that all passes are in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/loop_nets.h"

namespace trireme::testing {
namespace {

constexpr int64_t kSize = 160;

Var& wide(Var& x) { return layers::fc(x, {.size = kSize, .act = "tanh"}); }

Var& wide_dynamic_rnn(Var& x) {
  layers::DynamicRNN rnn;
  rnn.block([&] {
    Var& word = rnn.step_input(x);
    Var& before = rnn.memory({.shape = {kSize}, .value = 0.25});
    Var& next = layers::fc({word, before}, {.size = kSize, .act = "tanh"});
    rnn.update_memory(before, next);
    rnn.output(next);
  });
  return *rnn()[0];
}

// matmul instead of mul, with the weight as it is and turned over.
Var& by_matmul(Var& x) {
  Var& plain = layers::create_parameter({kSize, kSize}, DType::float32, {.name = "plain"});
  Var& turned = layers::create_parameter({kSize, kSize}, DType::float32, {.name = "turned"});
  return looped(wide(x), 3, [&](Var& h) -> Var& {
    Var& once = layers::matmul(h, plain, {.alpha = 0.5});
    return layers::tanh(layers::matmul(once, turned, {.transpose_y = true}));
  });
}

// Two gradients of one weight in every pass, and a row of the weight for itself.
Var& twice_in_a_pass(Var& x) {
  const layers::FcOptions shared{
      .size = kSize, .param_attr = ParamAttr{.name = "w"}, .bias_attr = false, .act = "tanh"};
  return looped(wide(x), 3,
                [&](Var& h) -> Var& { return layers::fc(layers::fc(h, shared), shared); });
}

struct Moved {
  LoopNet net;
  bool moves;
};

std::vector<Moved> moved_cases() {
  const auto loop = [](int64_t count) {
    return [count](Var& x) -> Var& { return looped(wide(x), count, wide); };
  };
  const auto loops = [](Var& x) -> Var& {
    return looped(wide(x), 2, [](Var& h) -> Var& { return looped(h, 3, wide); });
  };
  return {
      {{.name = "StaticRnn",
        .build = wide_rnn,
        .x = varied({5, 40, kWidth}),
        .shape = {5, 40, kWidth}},
       true},
      {{.name = "DynamicRnn", .build = wide_dynamic_rnn, .x = sequences({4, 1, 2}), .lod_level = 1},
       true},
      {{.name = "While", .build = loop(4)}, true},
      {{.name = "WhileWithoutAPass", .build = loop(0)}, true},
      {{.name = "WhileInWhile", .build = loops}, true},
      {{.name = "Matmul", .build = by_matmul}, true},
      {{.name = "TwiceInAPass", .build = twice_in_a_pass}, false},
      // Its gradient is smaller than the rows that make it.
      {{.name = "Narrow",
        .build = static_rnn,
        .x = varied({5, 4, kWidth}),
        .shape = {5, 4, kWidth}},
       false},
      {{.name = "Cond",
        .build = [](Var& x) -> Var& {
          Var& h = wide(x);
          return *layers::cond(
              layers::less_than(number(1), number(2)), [&] { return std::vector<Var*>{&wide(h)}; },
              [&] { return std::vector<Var*>{&layers::scale(h)}; })[0];
        }},
       false},
  };
}

class SumAfterLoops : public ::testing::TestWithParam<Moved> {};

TEST_P(SumAfterLoops, TrainsAsThePassesDo) {
  LoopProgram on(GetParam().net, true), off(GetParam().net, true);
  off.options.passes_off = {"sum_after_loops"};
  for (const Var* var : on.main->global_block().vars()) {
    const Variable* made = var->persistable() ? on.scope.find(var->name()) : nullptr;
    if (made && made->initialized()) off.scope.var(var->name()).copy_from(*made);
  }
  // Large steps: a part of a gradient that is missing is seen.
  for (LoopProgram* program : {&on, &off}) {
    *program->scope.find("learning_rate_0")->tensor().data<float>() = 0.5f;
    for (int i = 0; i < 3; ++i) program->run(GetParam().net.x);
  }
  size_t compared = 0;
  for (const Var* var : on.main->global_block().vars()) {
    const Variable* found = var->persistable() ? on.scope.find(var->name()) : nullptr;
    if (!found || found->kind() != Kind::dense || !found->initialized()) continue;
    const Tensor &a = found->tensor(), &b = off.scope.find(var->name())->tensor();
    ASSERT_EQ(a.shape(), b.shape()) << var->name();
    for (int64_t i = 0; i < a.numel(); ++i) {
      const float x = a.data<float>()[i], y = b.data<float>()[i];
      ASSERT_LE(std::abs(x - y), 1e-5f + 1e-5f * std::abs(y)) << var->name() << "[" << i << "]";
    }
    ++compared;
  }
  EXPECT_GE(compared, 3u);
  const std::string report = on.exe.report(*on.main);
  const size_t at = report.find("sum_after_loops: ");
  ASSERT_NE(at, report.npos) << report;
  const std::string line = report.substr(at, report.find('\n', at) - at);
  EXPECT_EQ(line.find("changed nothing") == line.npos, GetParam().moves) << line;
}

INSTANTIATE_TEST_SUITE_P(All, SumAfterLoops, ::testing::ValuesIn(moved_cases()),
                         [](const auto& info) { return info.param.net.name; });

}  // namespace
}  // namespace trireme::testing
