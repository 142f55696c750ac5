// Loops: values, gradients, shapes that change, conditions that do not fit.
#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

TEST(While, MultipliesAMatrixManyTimes) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.data("w", {3, 3});
  Var& h = powers(net, x, w, 4);
  Tensor expected = some({2, 3});
  const Tensor weights = some({3, 3}, -0.4);
  for (int t = 0; t < 4; ++t) {
    expected = trireme::testing::run_op(
        "tanh", {{"X", trireme::testing::run_op("matmul", {{"X", expected}, {"Y", weights}})}});
  }
  EXPECT_LT(max_abs_diff(net.run({{"x", some({2, 3})}, {"w", weights}}, h), expected), 1e-12);
}

TEST(While, GradientsOfWhatItChangesAndOfWhatItReads) {
  for (const int64_t steps : {0, 1, 4}) {
    Net net;
    Var& x = net.data("x", {2, 3});
    Var& w = net.data("w", {3, 3});
    Var& h = powers(net, x, w, steps);
    if (steps == 0) {
      Var& both = layers::reduce_sum(h) + layers::reduce_sum(w);
      expect_gradients(net, both, {{"x", some({2, 3})}, {"w", some({3, 3}, -0.4)}}, {&x, &w});
    } else {
      expect_gradients(net, h, {{"x", some({2, 3})}, {"w", some({3, 3}, -0.4)}}, {&x, &w});
    }
  }
}

TEST(While, GradientOpHasTheOriginalsSlots) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.data("w", {3, 3});
  Var& h = powers(net, x, w, 2);
  gradients({&layers::reduce_sum(h)}, {&x});
  const Block& block = net.main->global_block();
  const auto ops = block.ops();
  const auto grad =
      std::find_if(ops.begin(), ops.end(), [](const Op* op) { return op->type() == "while_grad"; });
  ASSERT_NE(grad, ops.end());
  EXPECT_EQ((*grad)->sub_block()->forward_index(), 1);
  EXPECT_EQ((*grad)->sub_block()->parent_index(), 0);
  EXPECT_THAT((*grad)->attr<std::vector<std::string>>("original_output_grad"),
              ElementsAre(h.name() + "@GRAD"));
  EXPECT_EQ((*grad)->input("X").size(), (*grad)->output("X@GRAD").size());
  EXPECT_FALSE((*grad)->input("StepScopes").empty());
}

// A variable that passes only overwrite: the last pass alone matters.
TEST(While, WhatEachPassOverwritesGetsItsGradientFromTheLastPass) {
  Net net;
  Var& x = net.data("x", {3});
  Var& i = net.number(0);
  Var& n = net.number(3);
  Var& h = layers::assign(x);
  Var& last = layers::assign(x);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    Var& next = layers::square(h);
    layers::assign(layers::scale(next, {.scale = 3}), &last);
    layers::assign(next, &h);
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  expect_gradients(net, last, {{"x", doubles({3}, {0.9, -0.8, 1.1})}}, {&x}, 1e-6);
}

TEST(While, SumsInPlace) {
  Net net;
  Var& x = net.data("x", {2});
  Var& i = net.number(0);
  Var& n = net.number(3);
  Var& total = layers::assign(x);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    layers::sums({total, layers::square(x)}, &total);
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  EXPECT_THAT(numbers(net.run({{"x", doubles({2}, {2, 3})}}, total)), ElementsAre(14, 30));
  expect_gradients(net, total, {{"x", doubles({2}, {2, 3})}}, {&x});
}

TEST(While, LoopsInsideLoops) {
  Net net;
  Var& x = net.data("x", {2});
  Var& w = net.data("w", {2});
  Var& i = net.number(0);
  Var& n = net.number(3);
  Var& h = layers::assign(x);
  Var& outer_more = layers::less_than(i, n);
  layers::While outer(outer_more);
  outer.run([&] {
    Var& j = layers::fill_constant({1}, DType::int64, 0);
    Var& local = layers::tanh(h);
    Var& inner_more = layers::less_than(j, i);
    layers::While inner(inner_more);
    inner.run([&] {
      layers::assign(layers::sigmoid(h * w) + local, &h);
      layers::increment(j);
      layers::less_than(j, i, &inner_more);
    });
    layers::assign(h * local, &h);
    layers::increment(i);
    layers::less_than(i, n, &outer_more);
  });
  expect_gradients(net, h, {{"x", doubles({2}, {0.4, -0.6})}, {"w", doubles({2}, {0.3, 0.8})}},
                   {&x, &w});
}

TEST(While, ShapesMayChangeFromPassToPass) {
  Net net;
  Var& x = net.data("x", {1, 2});
  Var& i = net.number(0);
  Var& n = net.number(3);
  Var& all = layers::assign(x);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    layers::assign(layers::concat({all, x}), &all);
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  const Tensor grown = net.run({{"x", doubles({1, 2}, {1, 2})}}, all);
  EXPECT_EQ(grown.shape(), Shape({4, 2}));
  expect_gradients(net, all, {{"x", doubles({1, 2}, {1, 2})}}, {&x});
}

TEST(While, ConditionMustBeOneBool) {
  Net net;
  Var& number = net.number(1);
  EXPECT_THAT(error_of([&] { layers::While loop(number); }), HasSubstr("bool"));
  Var& two = layers::fill_constant({2}, DType::boolean, 1);
  EXPECT_THAT(error_of([&] { layers::While loop(two); }), HasSubstr("one bool"));
}

TEST(While, APollEndsALoopThatNeverEnds) {
  Net net;
  Var& yes = layers::fill_constant({1}, DType::boolean, 1);
  Var& i = net.number(0);
  layers::While loop(yes);
  loop.run([&] { layers::increment(i); });
  int asked = 0;
  const auto poll = [&] {
    if (++asked == 2) throw Error("interrupted");
  };
  EXPECT_THAT(
      error_of([&] { net.executor.run(*net.main, {}, {}, {.scope = &net.scope, .poll = poll}); }),
      HasSubstr("interrupted"));
}

// ---- while_loop

TEST(WhileLoop, VariablesMayChangePlaces) {
  Net net;
  Var& a = net.data("a", {1});
  Var& b = net.data("b", {1});
  Var& i = net.number(0);
  Var& n = net.number(3);
  const auto result = layers::while_loop(
      [&](const std::vector<Var*>& v) -> Var& { return layers::less_than(*v[0], n); },
      [&](const std::vector<Var*>& v) -> std::vector<Var*> {
        return {&layers::increment(*v[0], 1, false), v[2], &(*v[1] * *v[2])};
      },
      {i, layers::assign(a), layers::assign(b)});
  // (a, b) -> (b, ab) -> (ab, abb) -> (abb, aabbb)
  EXPECT_DOUBLE_EQ(net.run_number({{"a", doubles({1}, {2})}, {"b", doubles({1}, {3})}}, *result[2]),
                   4 * 27);
  expect_gradients(net, *result[2], {{"a", doubles({1}, {2})}, {"b", doubles({1}, {3})}}, {&a, &b},
                   1e-5);
}

TEST(WhileLoop, BodyReturnsOneVariableForEach) {
  Net net;
  Var& i = net.number(0);
  Var& n = net.number(3);
  EXPECT_THAT(error_of([&] {
                layers::while_loop(
                    [&](const std::vector<Var*>& v) -> Var& { return layers::less_than(*v[0], n); },
                    [](const std::vector<Var*>&) { return std::vector<Var*>{}; }, {i});
              }),
              HasSubstr("body returns 0 variables but there are 1 loop_vars"));
  EXPECT_EQ(net.main->current_index(), 0);
}

}  // namespace
}  // namespace trireme
