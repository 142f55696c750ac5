// Conditions: the way that is taken has the gradient, the other has none.
#include <cmath>
#include <tuple>

#include "layers/optimizer.h"
#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

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

// w -= 0.5 * d(w^2)/dw = 0 where the branch is taken; the other one halves it.
TEST(Cond, AnOptimizerInABranchUpdatesWithIt) {
  Net net;
  Var& go = net.main->global_block().create_var(
      {.name = "go", .dtype = DType::boolean, .shape = {1}, .is_data = true});
  Var& w = layers::create_parameter({1}, DType::float32, {.name = "w"});
  Var& squared = layers::square(w);  // outside: its gradient is taken inside
  const auto minimized = [&](double rate) {
    return [&, rate] {
      Var& loss = layers::mean(squared);
      optimizer::Sgd(rate).minimize(loss);
      return std::vector<Var*>{&loss};
    };
  };
  const auto loss = layers::cond(go, minimized(0.5), minimized(0.25));
  EXPECT_EQ(net.main->num_blocks(), 3u);
  EXPECT_THAT(types_of(net.main->block(1)),
              HasSubstr("mean fill_constant mean_grad square_grad sgd"));
  EXPECT_NE(net.main->block(2).find_var("w@GRAD"), nullptr) << "a branch has its own gradients";
  net.executor.run(*net.startup, {}, {}, {.scope = &net.scope});
  Tensor& weight = net.scope.var("w").tensor();
  for (const bool taken : {true, false}) {
    *weight.data<float>() = 3;
    const Tensor asked = cast(longs({1}, {taken}), DType::boolean);
    EXPECT_EQ(net.run_number({{"go", asked}}, *loss[0]), 9);
    EXPECT_FLOAT_EQ(*net.scope.var("w").tensor().data<float>(), taken ? 0.0f : 1.5f);
  }
}

TEST(Cond, GradientsAskedForInABranchGoThroughWhatStandsOutside) {
  Net net;
  Var& x = net.data("x", {2});
  Var& outside = layers::square(x);
  const auto out = layers::cond(
      layers::less_than(net.number(0), net.number(1)),
      [&] {
        Var& loss = layers::reduce_sum(outside * 3.0);
        return std::vector<Var*>{gradients({&loss}, {&x}).at(0)};
      },
      [&] { return std::vector<Var*>{&layers::assign(x)}; });
  EXPECT_THAT(numbers(net.run({{"x", doubles({2}, {1, -2})}}, *out[0])), ElementsAre(6, -12));
}

TEST(Cond, CheckpointsInABranchAreRefused) {
  Net net;
  Var& x = net.data("x", {1});
  const std::string what = error_of([&] {
    layers::cond(layers::less_than(net.number(0), net.number(1)),
                 [&] {
                   Var& loss = layers::mean(layers::square(x));
                   append_backward(loss, {.checkpoints = {"x"}});
                   return std::vector<Var*>{&loss};
                 },
                 {});
  });
  EXPECT_THAT(what, HasSubstr("cannot recompute between checkpoints"));
}

}  // namespace
}  // namespace trireme
