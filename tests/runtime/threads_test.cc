// Results do not depend on how many threads run a step: equal bits at 1, 2, 3 and 4.
#include <gtest/gtest.h>

#include "core/random.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "tests/layers/build.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

Tensor noise(const Shape& shape, uint64_t stream) {
  const Philox random(5, stream);
  Tensor made(DType::float32, shape);
  for (int64_t i = 0; i < made.numel(); ++i) {
    made.data<float>()[i] = static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i)) - 1);
  }
  return made;
}

Tensor labels(int64_t rows, int64_t classes) {
  Tensor made(DType::int64, {rows, 1});
  for (int64_t i = 0; i < rows; ++i) made.data<int64_t>()[i] = i % classes;
  return made;
}

// Every parameter after some steps, and the losses.
std::vector<std::vector<double>> train(int threads, const Feeds& feeds, Var& (*build)()) {
  const FreshPrograms fresh;
  fresh.startup->set_seed(3);
  Var& loss = build();
  optimizer::Momentum(0.05, 0.9).minimize(loss);
  Scope scope;
  Executor executor;
  executor.run(*fresh.startup, {}, {}, {.scope = &scope});
  std::vector<std::vector<double>> found;
  for (int step = 0; step < 3; ++step) {
    found.push_back(numbers(
        executor.run_one(*fresh.main, feeds, loss.name(), {.scope = &scope, .threads = threads})));
  }
  for (const Var* var : fresh.main->global_block().vars()) {
    if (var->is_parameter()) found.push_back(numbers(scope.find(var->name())->tensor()));
  }
  return found;
}

void expect_equal_bits(const Feeds& feeds, Var& (*build)()) {
  const auto alone = train(1, feeds, build);
  EXPECT_GT(alone.size(), 4u);
  for (const int threads : {2, 3, 4}) EXPECT_EQ(alone, train(threads, feeds, build)) << threads;
}

TEST(Threads, ConvolutionsHaveTheSameBits) {
  expect_equal_bits(
      {{"x", noise({7, 3, 18, 18}, 0)}, {"label", labels(7, 10)}}, +[]() -> Var& {
        Var& x = layers::data("x", {3, 18, 18});
        Var& label = layers::data("label", {1}, {.dtype = DType::int64});
        Var& first = layers::batch_norm(
            layers::conv2d(x, {.num_filters = 64, .filter_size = 3, .padding = 1}),
            {.act = "relu"});
        Var& second = layers::conv2d(first, {.num_filters = 64, .filter_size = 3, .padding = 1});
        Var& third = layers::conv2d(second, {.num_filters = 50, .filter_size = 5, .stride = 2});
        Var& pooled = layers::pool2d(third, {.pool_size = 2, .pool_stride = 2});
        Var& out = layers::fc(pooled, {.size = 10});
        return layers::mean(layers::softmax_with_cross_entropy(out, label));
      });
}

TEST(Threads, ProductsHaveTheSameBits) {
  expect_equal_bits(
      {{"x", noise({100, 515}, 0)}, {"label", labels(100, 300)}}, +[]() -> Var& {
        Var& x = layers::data("x", {515});
        Var& label = layers::data("label", {1}, {.dtype = DType::int64});
        Var& first = layers::fc(x, {.size = 400, .act = "relu"});
        Var& second = layers::fc(first, {.size = 130, .act = "sigmoid"});
        Var& out = layers::fc(second, {.size = 300});
        return layers::mean(layers::softmax_with_cross_entropy(out, label));
      });
}

}  // namespace
}  // namespace trireme::testing
