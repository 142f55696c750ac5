// Programs with sub-blocks: saved, cloned, pruned, differentiated twice and from inside.
#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

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

TEST(ControlFlow, PrunedProgramsKeepWhatGradientsRead) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.data("w", {3, 3});
  Var& h = powers(net, x, w, 3);
  Var& unused = layers::square(x);
  const auto grads = gradients({&layers::reduce_sum(layers::square(h))}, {&x, &w});
  const Feeds feeds = {{"x", some({2, 3})}, {"w", some({3, 3}, -0.4)}};
  for (const Var* grad : grads) {
    const Tensor pruned = net.executor.run_one(*net.main, feeds, grad->name(),
                                               {.scope = &net.scope, .use_prune = true});
    EXPECT_EQ(max_abs_diff(pruned, net.run(feeds, *grad)), 0);
  }
  EXPECT_EQ(net.run(feeds, unused).shape(), Shape({2, 3}));
}

TEST(ControlFlow, EqualConstantsStayApartWhereOneIsCounted) {
  Net net;
  Var& i = net.number(0);
  Var& zero = net.number(0);
  Var& n = net.number(3);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  EXPECT_EQ(net.run_number({}, zero), 0);
  EXPECT_EQ(net.run_number({}, i), 3);
}

TEST(ControlFlow, TwoBackwardsThroughOneLoop) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.data("w", {3, 3});
  Var& h = powers(net, x, w, 2);
  const Feeds feeds = {{"x", some({2, 3})}, {"w", some({3, 3}, -0.4)}};
  expect_gradients(net, h, feeds, {&x, &w});
  expect_gradients(net, layers::square(h), feeds, {&w, &x});
}

TEST(ControlFlow, SparseGradientsOfPassesAddUp) {
  Tensor results[2];
  for (const bool sparse : {false, true}) {
    Net net;
    Var& table = net.main->global_block().create_parameter(
        {.name = "table", .dtype = DType::float64, .shape = {4, 2}}, {});
    net.scope.var("table").tensor() = some({4, 2});
    Var& i = net.number(0);
    Var& n = net.number(3);
    Var& total = layers::fill_constant({1, 2}, DType::float64, 0.5);
    total.set_stop_gradient(false);
    Var& more = layers::less_than(i, n);
    layers::While loop(more);
    loop.run([&] {
      Var& ids = layers::reshape(i, {1, 1});
      Var& row =
          layers::apply("lookup_table", {{"W", table}, {"Ids", ids}}, {{"is_sparse", sparse}});
      layers::assign(total * row, &total);
      layers::increment(i);
      layers::less_than(i, n, &more);
    });
    const auto pairs = append_backward(layers::reduce_sum(total));
    ASSERT_EQ(pairs.size(), 1u);
    Variable found =
        net.executor.run(*net.main, {}, {pairs[0].second->name()}, {.scope = &net.scope}).front();
    ASSERT_EQ(found.kind(), sparse ? Kind::rows : Kind::dense);
    if (!sparse) {
      results[0] = found.tensor();
      continue;
    }
    results[1] = filled(DType::float64, {4, 2}, 0);
    const SelectedRows merged = merge_rows(found.rows());
    for (size_t r = 0; r < merged.rows.size(); ++r) {
      for (int64_t j = 0; j < 2; ++j) {
        results[1].data<double>()[merged.rows[r] * 2 + j] =
            merged.value.data<double>()[static_cast<int64_t>(r) * 2 + j];
      }
    }
  }
  EXPECT_LT(max_abs_diff(results[0], results[1]), 1e-14);
  EXPECT_NE(results[0].data<double>()[0], 0);
}

TEST(ControlFlow, ABlockThatReadsAndWritesOneVariable) {
  Net net;
  Var& x = net.data("x", {2});
  Var& limit = net.data("limit", {1});
  Var& pred = layers::less_than(layers::reduce_sum(x), limit);
  Var& y = layers::square(x);
  layers::ConditionalBlock block(pred, true);
  block.run([&] { layers::assign(layers::exp(y), &y); });
  for (const double top : {100.0, -100.0}) {
    SCOPED_TRACE(top);
    expect_gradients(net, y, {{"x", doubles({2}, {0.5, -0.25})}, {"limit", doubles({1}, {top})}},
                     {&x}, 1e-6);
  }
}

TEST(ControlFlow, ALoopForTestsHasNoGradient) {
  Net net;
  Var& x = net.data("x", {2, 3});
  Var& w = net.data("w", {3, 3});
  Var& h = powers(net, x, w, 2);
  const auto grads = gradients({&layers::reduce_sum(h)}, {&x});
  for (Op* op : net.main->global_block().ops()) {
    if (op->type() == "while") op->set_attr("is_test", true);
  }
  EXPECT_THAT(error_of([&] {
                net.run({{"x", some({2, 3})}, {"w", some({3, 3}, -0.4)}}, *grads[0]);
              }),
              HasSubstr("kept nothing for its gradient"));
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
