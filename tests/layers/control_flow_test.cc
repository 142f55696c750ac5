// Control flow through the whole engine: values, gradients against finite differences and against
// the same network unrolled, programs that are saved and cloned, wrong uses.
#include "layers/control_flow.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ir/backward.h"
#include "runtime/executor.h"
#include "tests/layers/build.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using testing::doubles;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::longs;
using testing::max_abs_diff;
using testing::numbers;

// A program under construction and a scope to run it in.
struct Net : FreshPrograms {
  Scope scope;
  Executor executor;

  Var& data(const std::string& name, std::vector<int64_t> shape, int lod_level = 0) {
    return main->global_block().create_var({.name = name,
                                            .dtype = DType::float64,
                                            .shape = Shape(shape),
                                            .lod_level = lod_level,
                                            .is_data = true});
  }
  Var& number(int64_t value) { return layers::fill_constant({1}, DType::int64, value); }

  Tensor run(const Feeds& feeds, const Var& fetch) {
    return executor.run_one(*main, feeds, fetch.name(), {.scope = &scope});
  }
  double run_number(const Feeds& feeds, const Var& fetch) {
    return element_as_double(run(feeds, fetch), 0);
  }
};

// d(sum of target)/d(feed) as the program says and as differences say.
void expect_gradients(Net& net, Var& target, Feeds feeds, const std::vector<Var*>& inputs,
                      double tolerance = 1e-7) {
  Var& loss = layers::reduce_sum(target);
  const std::vector<Var*> found = gradients({&loss}, inputs);
  for (size_t v = 0; v < inputs.size(); ++v) {
    ASSERT_NE(found[v], nullptr) << inputs[v]->name();
    const Tensor gradient = net.run(feeds, *found[v]);
    const Tensor original = feeds.at(inputs[v]->name());
    ASSERT_EQ(gradient.shape(), original.shape()) << inputs[v]->name();
    for (int64_t i = 0; i < original.numel(); ++i) {
      constexpr double kStep = 1e-5;
      double values[2];
      for (const int side : {0, 1}) {
        Tensor moved = original.clone();
        moved.data<double>()[i] += side ? kStep : -kStep;
        feeds[inputs[v]->name()] = moved;
        values[side] = net.run_number(feeds, loss);
      }
      feeds[inputs[v]->name()] = original;
      EXPECT_NEAR(gradient.data<double>()[i], (values[1] - values[0]) / (2 * kStep), tolerance)
          << inputs[v]->name() << "[" << i << "]";
    }
  }
}

Tensor some(const Shape& shape, double from = -0.7) {
  Tensor tensor(DType::float64, shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<double>()[i] =
        from + 0.37 * static_cast<double>(i % 5) - 0.11 * static_cast<double>(i % 3);
  }
  return tensor;
}

// ---- While

// h = x; T times: h = tanh(h w).
Var& powers(Net& net, Var& x, Var& w, int64_t steps) {
  Var& i = net.number(0);
  Var& n = net.number(steps);
  Var& h = layers::assign(x);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    layers::assign(layers::tanh(layers::matmul(h, w)), &h);
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  return h;
}

TEST(While, MultipliesAMatrixManyTimes) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.data("w", {3, 3});
  Var& h = powers(net, x, w, 4);
  Tensor expected = some({2, 3});
  const Tensor weights = some({3, 3}, -0.4);
  for (int t = 0; t < 4; ++t) {
    expected = testing::run_op(
        "tanh", {{"X", testing::run_op("matmul", {{"X", expected}, {"Y", weights}})}});
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

// ---- tensor arrays

TEST(Arrays, KeepWhatIsWritten) {
  Net net;
  Var& x = net.data("x", {2});
  Var& zero = net.number(0);
  Var& two = net.number(2);
  Var& array = layers::array_write(x, zero);
  layers::array_write(layers::scale(x, {.scale = 2}), two, &array);
  Var& read = layers::array_read(array, two);
  Var& length = layers::array_length(array);
  EXPECT_THAT(numbers(net.run({{"x", doubles({2}, {1, 5})}}, read)), ElementsAre(2, 10));
  EXPECT_THAT(numbers(net.run({{"x", doubles({2}, {1, 5})}}, length)), ElementsAre(3));
  Var& empty = layers::create_array(DType::float64);
  EXPECT_THAT(numbers(net.run({{"x", doubles({2}, {1, 5})}}, layers::array_length(empty))),
              ElementsAre(0));
}

TEST(Arrays, ReadingBeyondTheEndNamesIndexAndLength) {
  Net net;
  Var& x = net.data("x", {2});
  Var& array = layers::array_write(x, net.number(0));
  Var& read = layers::array_read(array, net.number(7));
  const std::string what = error_of([&] { net.run({{"x", doubles({2}, {1, 5})}}, read); });
  EXPECT_THAT(what, HasSubstr("element 7 is read, but the array has 1 elements"));
  EXPECT_THAT(what, HasSubstr("control_flow_test.cc"));
}

TEST(Arrays, GradientsOfElementsReadTwiceAndWrittenTwice) {
  Net net;
  Var& x = net.data("x", {2});
  Var& zero = net.number(0);
  Var& one = net.number(1);
  Var& array = layers::array_write(layers::square(x), zero);
  layers::array_write(x, one, &array);
  Var& first = layers::array_read(array, zero);
  Var& again = layers::array_read(array, zero);
  layers::array_write(first * again * x, zero, &array);  // the first value is lost
  Var& third = layers::array_read(array, zero);
  Var& other = layers::array_read(array, one);
  expect_gradients(net, third * other, {{"x", doubles({2}, {1.5, -0.5})}}, {&x}, 1e-5);
}

TEST(Arrays, JoinTheirElements) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& array = layers::array_write(x, net.number(0));
  layers::array_write(layers::square(x), net.number(1), &array);
  const auto [joined, index] = layers::tensor_array_to_tensor(array, 1);
  EXPECT_EQ(net.run({{"x", some({2, 3})}}, *joined).shape(), Shape({2, 6}));
  EXPECT_THAT(numbers(net.run({{"x", some({2, 3})}}, *index)), ElementsAre(3, 3));
  const auto [stacked, ones] = layers::tensor_array_to_tensor(array, 1, true);
  EXPECT_EQ(net.run({{"x", some({2, 3})}}, *stacked).shape(), Shape({2, 2, 3}));
  expect_gradients(
      net, layers::reduce_sum(layers::square(*joined)) + layers::reduce_sum(layers::tanh(*stacked)),
      {{"x", some({2, 3})}}, {&x}, 1e-6);
}

// h[t+1] = tanh(x[t] u + h[t] w), states and inputs in arrays; the sum of all h.
Var& array_rnn(Net& net, Var& x, Var& u, Var& w, Var& h0, int64_t steps) {
  Var& i = net.number(0);
  Var& n = net.number(steps);
  Var& inputs = layers::create_array(DType::float64);
  for (int64_t t = 0; t < steps; ++t) {
    layers::array_write(layers::slice(x, {0}, {t}, {t + 1}), net.number(t), &inputs);
  }
  Var& states = layers::array_write(h0, net.number(0));
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    Var& before = layers::array_read(states, i);
    Var& word = layers::array_read(inputs, i);
    Var& next = layers::tanh(layers::matmul(word, u) + layers::matmul(before, w));
    layers::increment(i);
    layers::array_write(next, i, &states);
    layers::less_than(i, n, &more);
  });
  Var& all = *layers::tensor_array_to_tensor(states, 0).first;
  return layers::square(all);
}

TEST(Arrays, AnRnnOverArraysEqualsTheUnrolledOne) {
  Net net;
  Var& x = net.data("x", {3, 2});
  Var& u = net.data("u", {2, 2});
  Var& w = net.data("w", {2, 2});
  Var& h0 = net.data("h0", {1, 2});
  Var& looped = array_rnn(net, x, u, w, h0, 3);
  std::vector<Var*> states = {&h0};
  for (int t = 0; t < 3; ++t) {
    Var& word = layers::slice(x, {0}, {t}, {t + 1});
    states.push_back(&layers::tanh(layers::matmul(word, u) + layers::matmul(*states.back(), w)));
  }
  Var& unrolled = layers::square(layers::concat(Vars(states)));
  const Feeds feeds = {{"x", some({3, 2})},
                       {"u", some({2, 2}, -0.3)},
                       {"w", some({2, 2}, -0.5)},
                       {"h0", some({1, 2}, 0.2)}};
  EXPECT_LT(max_abs_diff(net.run(feeds, looped), net.run(feeds, unrolled)), 1e-14);
  const auto a = gradients({&layers::reduce_sum(looped)}, {&x, &u, &w, &h0});
  const auto b = gradients({&layers::reduce_sum(unrolled)}, {&x, &u, &w, &h0});
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i] && b[i]) << i;
    EXPECT_LT(max_abs_diff(net.run(feeds, *a[i]), net.run(feeds, *b[i])), 1e-12) << i;
  }
}

// ---- conditions

TEST(Cond, GradientsGoTheWayThatWasTaken) {
  Net net;
  Var& x = net.data("x", {2});
  Var& limit = net.data("limit", {1});
  Var& pred = layers::less_than(layers::reduce_sum(x), limit);
  const auto out = layers::cond(
      pred, [&] { return std::vector<Var*>{&layers::square(x)}; },
      [&] { return std::vector<Var*>{&layers::exp(layers::scale(x, {.scale = 2}))}; });
  for (const double top : {100.0, -100.0}) {
    SCOPED_TRACE(top);
    Feeds feeds = {{"x", doubles({2}, {0.5, -0.25})}, {"limit", doubles({1}, {top})}};
    EXPECT_NEAR(net.run(feeds, *out[0]).data<double>()[0], top > 0 ? 0.25 : std::exp(1.0), 1e-12);
    expect_gradients(net, *out[0], feeds, {&x}, 1e-6);
  }
}

TEST(Cond, InsideALoopWithALoopInside) {
  Net net;
  Var& x = net.data("x", {2});
  Var& i = net.number(0);
  Var& n = net.number(4);
  Var& two = net.number(2);
  Var& h = layers::assign(x);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    const auto next = layers::cond(
        layers::less_than(i, two),
        [&] {
          Var& j = layers::fill_constant({1}, DType::int64, 0);
          const auto inner = layers::while_loop(
              [&](const std::vector<Var*>& v) -> Var& { return layers::less_than(*v[0], two); },
              [&](const std::vector<Var*>& v) {
                return std::vector<Var*>{&layers::increment(*v[0], 1, false),
                                         &(layers::tanh(*v[1]) * x)};
              },
              {j, layers::assign(h)});
          return std::vector<Var*>{inner[1]};
        },
        [&] { return std::vector<Var*>{&layers::square(h)}; });
    layers::assign(*next[0], &h);
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  expect_gradients(net, h, {{"x", doubles({2}, {0.9, -1.3})}}, {&x});
}

TEST(Cond, BothWaysReturnAsManyVariables) {
  Net net;
  Var& x = net.data("x", {2});
  Var& yes = layers::fill_constant({1}, DType::boolean, 1);
  EXPECT_THAT(error_of([&] {
                layers::cond(
                    yes, [&] { return std::vector<Var*>{&x}; }, [] { return std::vector<Var*>{}; });
              }),
              HasSubstr("true_fn returns 1 variables and false_fn 0"));
}

TEST(Case, TheFirstThatHoldsIsTaken) {
  Net net;
  Var& x = net.data("x", {1});
  const auto times = [&](double factor) {
    return [&x, factor] { return std::vector<Var*>{&layers::scale(x, {.scale = factor})}; };
  };
  Var& one = layers::fill_constant({1}, DType::float64, 1);
  Var& three = layers::fill_constant({1}, DType::float64, 3);
  const auto out = layers::case_(
      {{&layers::less_than(x, one), times(10)}, {&layers::less_than(x, three), times(20)}},
      times(30));
  for (const auto& [value, factor] : {std::pair{0.5, 10.0}, {2.0, 20.0}, {5.0, 30.0}}) {
    EXPECT_DOUBLE_EQ(net.run_number({{"x", doubles({1}, {value})}}, *out[0]), value * factor);
  }
  expect_gradients(net, *out[0], {{"x", doubles({1}, {2})}}, {&x});
}

TEST(SwitchCase, UnknownNumbersTakeTheDefault) {
  Net net;
  Var& index = net.main->global_block().create_var(
      {.name = "index", .dtype = DType::int64, .shape = {1}, .is_data = true});
  const auto value = [](double number) {
    return
        [number] { return std::vector<Var*>{&layers::fill_constant({1}, DType::float64, number)}; };
  };
  const auto with = layers::switch_case(index, {{1, value(10)}, {4, value(40)}}, value(-1));
  const auto without = layers::switch_case(index, {{1, value(10)}, {4, value(40)}});
  for (const auto& [number, a, b] : {std::tuple{1, 10, 10}, {4, 40, 40}, {2, -1, 40}}) {
    const Feeds feeds = {{"index", longs({1}, {number})}};
    EXPECT_EQ(net.run_number(feeds, *with[0]), a);
    EXPECT_EQ(net.run_number(feeds, *without[0]), b);
  }
}

TEST(ConditionalBlock, ABlockThatDoesNotRunLeavesValuesAndGradients) {
  Net net;
  Var& x = net.data("x", {2});
  Var& limit = net.data("limit", {1});
  Var& pred = layers::less_than(layers::reduce_sum(x), limit);
  Var& y = layers::square(x);
  layers::ConditionalBlock block(pred, true);
  block.run([&] { layers::assign(layers::scale(x, {.scale = 7}), &y); });
  for (const double top : {100.0, -100.0}) {
    SCOPED_TRACE(top);
    const Feeds feeds = {{"x", doubles({2}, {0.5, -0.25})}, {"limit", doubles({1}, {top})}};
    EXPECT_NEAR(net.run(feeds, y).data<double>()[0], top > 0 ? 3.5 : 0.25, 1e-12);
    expect_gradients(net, y, feeds, {&x}, 1e-6);
  }
}

TEST(ConditionalBlock, ReadingWhatNoBlockWroteIsAnError) {
  Net net;
  Var& x = net.data("x", {1});
  Var& zero = layers::fill_constant({1}, DType::float64, 0);
  Var& pred = layers::less_than(zero, x);
  Var& y =
      net.main->global_block().create_var({.name = "y", .dtype = DType::float64, .shape = {1}});
  layers::ConditionalBlock block(pred, true);
  block.run([&] { layers::assign(x, &y); });
  Var& z = layers::square(y);
  EXPECT_EQ(net.run_number({{"x", doubles({1}, {3})}}, z), 9);
  const std::string what = error_of([&] { net.run({{"x", doubles({1}, {-3})}}, z); });
  EXPECT_THAT(what,
              HasSubstr("it reads y, which holds nothing: the block that writes it did not run"));
  EXPECT_THAT(what, HasSubstr("square"));
}

TEST(IfElse, RowsGoTheirWays) {
  Net net;
  Var& x = net.data("x", {-1, 1});
  Var& zero = layers::fill_constant_batch_size_like(x, {-1, 1}, DType::float64, 0.0);
  layers::IfElse by_row(layers::less_than(x, zero));
  by_row.true_block([&] { by_row.output(layers::square(by_row.input(x))); });
  by_row.false_block([&] { by_row.output(layers::scale(by_row.input(x), {.scale = 10})); });
  Var& y = *by_row()[0];
  EXPECT_THAT(numbers(net.run({{"x", doubles({4, 1}, {-2, 3, -4, 5})}}, y)),
              ElementsAre(4, 30, 16, 50));
  EXPECT_THAT(numbers(net.run({{"x", doubles({2, 1}, {1, 2})}}, y)), ElementsAre(10, 20));
  expect_gradients(net, y, {{"x", doubles({4, 1}, {-2, 3, -4, 5})}}, {&x}, 1e-6);
}

// ---- StaticRNN, DynamicRNN

TEST(StaticRNN, EqualsTheUnrolledChain) {
  Net net;
  Var& x = net.data("x", {3, 2, 4});
  Var& w = net.data("w", {4, 5});
  Var& u = net.data("u", {5, 5});
  Var& h0 = net.data("h0", {2, 5});
  layers::StaticRNN rnn;
  rnn.step([&] {
    Var& word = rnn.step_input(x);
    Var& before = rnn.memory({.init = &h0});
    Var& next = layers::tanh(layers::matmul(word, w) + layers::matmul(before, u));
    rnn.update_memory(before, next);
    rnn.step_output(next);
    rnn.step_output(layers::square(next));
  });
  Var& looped = layers::reduce_sum(*rnn()[0]) + layers::reduce_sum(*rnn()[1]);
  EXPECT_EQ(rnn()[0]->shape(), Shape({3, 2, 5}));
  Var* h = &h0;
  Var* total = nullptr;
  for (int t = 0; t < 3; ++t) {
    Var& word = layers::reshape(layers::slice(x, {0}, {t}, {t + 1}), {2, 4});
    h = &layers::tanh(layers::matmul(word, w) + layers::matmul(*h, u));
    Var& part = layers::reduce_sum(*h) + layers::reduce_sum(layers::square(*h));
    total = total ? &(*total + part) : &part;
  }
  const Feeds feeds = {{"x", some({3, 2, 4})},
                       {"w", some({4, 5}, -0.3)},
                       {"u", some({5, 5}, -0.4)},
                       {"h0", some({2, 5}, 0.1)}};
  EXPECT_NEAR(net.run_number(feeds, looped), net.run_number(feeds, *total), 1e-12);
  const auto a = gradients({&looped}, {&x, &w, &u, &h0});
  const auto b = gradients({total}, {&x, &w, &u, &h0});
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i] && b[i]) << i;
    EXPECT_LT(max_abs_diff(net.run(feeds, *a[i]), net.run(feeds, *b[i])), 1e-12) << i;
  }
}

TEST(StaticRNN, WrongUses) {
  Net net;
  Var& x = net.data("x", {3, 2, 4});
  layers::StaticRNN rnn;
  EXPECT_THAT(error_of([&] { rnn.step_input(x); }), HasSubstr("outside of the step block"));
  EXPECT_THAT(error_of([&] {
                rnn.step([&] {
                  Var& word = rnn.step_input(x);
                  rnn.memory({.shape = {-1, 4}, .batch_ref = &word});
                  rnn.step_output(word);
                });
              }),
              HasSubstr("is never updated"));
}

// Sums words of each sequence through a nonlinear memory, with a static input per sequence.
struct Dynamic : Net {
  Var& x = data("x", {-1, 2}, 1);
  Var& w = data("w", {2, 2});
  Var& bias = data("bias", {-1, 2});
  Var* out = nullptr;
  Var* last = nullptr;

  Dynamic() {
    layers::DynamicRNN rnn;
    rnn.block([&] {
      Var& word = rnn.step_input(x);
      Var& offset = rnn.static_input(bias);
      Var& before = rnn.memory({.shape = {2}, .value = 0.25, .dtype = DType::float64});
      Var& next = layers::tanh(layers::matmul(before, w) + word) + offset;
      rnn.update_memory(before, next);
      rnn.output(next);
    });
    out = rnn()[0];
  }
};

TEST(DynamicRNN, EqualsALoopOverEachSequence) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{2, 4, 1}, {1, 0, 3, 3}, {5}}) {
    Dynamic net;
    int64_t rows = 0;
    for (const int64_t length : lengths) rows += length;
    Tensor x = some({rows, 2});
    x.set_lod(lod_from_lengths({lengths}));
    const Tensor w = some({2, 2}, -0.3),
                 bias = some({static_cast<int64_t>(lengths.size()), 2}, 0.1);
    const Tensor out = net.run({{"x", x}, {"w", w}, {"bias", bias}}, *net.out);
    EXPECT_EQ(out.lod(), x.lod());
    int64_t row = 0;
    for (size_t s = 0; s < lengths.size(); ++s) {
      double h[2] = {0.25, 0.25};
      for (int64_t t = 0; t < lengths[s]; ++t, ++row) {
        double next[2];
        for (int j = 0; j < 2; ++j) {
          const double sum = h[0] * w.data<double>()[j] + h[1] * w.data<double>()[2 + j];
          next[j] = std::tanh(sum + x.data<double>()[row * 2 + j]) +
                    bias.data<double>()[s * 2 + static_cast<size_t>(j)];
        }
        for (int j = 0; j < 2; ++j) {
          h[j] = next[j];
          EXPECT_NEAR(out.data<double>()[row * 2 + j], h[j], 1e-12);
        }
      }
    }
    expect_gradients(net, layers::square(*net.out), {{"x", x}, {"w", w}, {"bias", bias}},
                     {&net.x, &net.w, &net.bias}, 1e-6);
  }
}

TEST(DynamicRNN, WrongUses) {
  Net net;
  Var& x = net.data("x", {-1, 2}, 1);
  layers::DynamicRNN rnn;
  EXPECT_THAT(error_of([&] { rnn.block([&] { rnn.static_input(x); }); }),
              HasSubstr("before step_input"));
  EXPECT_EQ(net.main->current_index(), 0);
  layers::DynamicRNN other;
  other.block([&] { other.output(other.step_input(x)); });
  EXPECT_THAT(error_of([&] {
                net.run({{"x", some({3, 2})}}, *other()[0]);
              }),
              HasSubstr("levels of sequences"));
}

// ---- programs

TEST(ControlFlow, ProgramsWithSubBlocksSurviveSavingAndLoading) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.data("w", {3, 3});
  Var& h = powers(net, x, w, 3);
  const auto grads = gradients({&layers::reduce_sum(h)}, {&x, &w});
  const Feeds feeds = {{"x", some({2, 3})}, {"w", some({3, 3}, -0.4)}};
  const auto loaded = parse_program(serialize(*net.main));
  for (const Var* grad : grads) {
    const Tensor again = net.executor.run_one(*loaded, feeds, grad->name(), {.scope = &net.scope});
    EXPECT_EQ(max_abs_diff(again, net.run(feeds, *grad)), 0);
  }
}

TEST(ControlFlow, ClonesForTestsKeepTheLoopAndNotItsGradient) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.main->global_block().create_parameter(
      {.name = "w", .dtype = DType::float64, .shape = {3, 3}}, {});
  net.scope.var("w").tensor() = some({3, 3}, -0.4);
  Var& h = powers(net, x, w, 3);
  Var& loss = layers::reduce_sum(h);
  const auto pairs = append_backward(loss);
  ASSERT_EQ(pairs.size(), 1u);
  const Feeds feeds = {{"x", some({2, 3})}};
  const Tensor gradient = net.run(feeds, *pairs[0].second);
  const auto test = clone(*net.main, true);
  EXPECT_EQ(test->num_blocks(), 2u);
  EXPECT_EQ(
      element_as_double(net.executor.run_one(*test, feeds, loss.name(), {.scope = &net.scope}), 0),
      net.run_number(feeds, loss));
  EXPECT_EQ(gradient.shape(), Shape({3, 3}));
}

TEST(ControlFlow, GradientsSeeTheVersionsTheirOpsSaw) {
  Net net;
  Var& x = net.data("x", {2});
  Var& i = net.number(0);
  Var& n = net.number(2);
  Var& h = layers::assign(x);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    Var& local = layers::square(h);
    layers::assign(local, &h);
    layers::assign(layers::tanh(h) * h, &local);
    layers::assign(layers::exp(local) * h, &h);
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  expect_gradients(net, h, {{"x", doubles({2}, {0.4, -0.6})}}, {&x}, 1e-6);
}

TEST(ControlFlow, BackwardInsideABlock) {
  Net net;
  Var& x = net.data("x", {2});
  Var& w = net.main->global_block().create_parameter(
      {.name = "w", .dtype = DType::float64, .shape = {2}}, {});
  net.scope.var("w").tensor() = doubles({2}, {3, 4});
  Var& result = net.main->global_block().create_var(
      {.name = "result", .dtype = DType::float64, .shape = {2}});
  Var& yes = layers::fill_constant({1}, DType::boolean, 1);
  layers::ConditionalBlock block(yes, true);
  block.run([&] {
    Var& loss = layers::reduce_sum(layers::square(w) * x);
    const auto pairs = append_backward(loss);
    ASSERT_EQ(pairs.size(), 1u);
    layers::assign(*pairs[0].second, &result);
  });
  EXPECT_THAT(numbers(net.run({{"x", doubles({2}, {1, 10})}}, result)), ElementsAre(6, 80));
}

}  // namespace
}  // namespace trireme
