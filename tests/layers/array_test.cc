// Tensor arrays in programs and loops: values and gradients.
#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

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
  EXPECT_THAT(what, HasSubstr("array_test.cc"));
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

// Programs write the first element at the counter itself, and then count on.
TEST(Arrays, GradientsGoToTheElementsThatACounterStoodAt) {
  Net net;
  Var& x = net.data("x", {3});
  Var& i = net.number(0);
  Var& n = net.number(3);
  Var& memory = layers::array_write(x, i);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    Var& before = layers::array_read(memory, i);
    layers::increment(i);
    layers::array_write(layers::tanh(before) * x, i, &memory);
    layers::less_than(i, n, &more);
  });
  Var& last = layers::array_read(memory, i);
  expect_gradients(net, last, {{"x", doubles({3}, {0.9, -0.8, 1.1})}}, {&x}, 1e-6);
  layers::increment(i);
  EXPECT_THAT(error_of([&] { gradients({&layers::reduce_sum(last)}, {&x}); }),
              HasSubstr("is written again after it, by increment"));
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

}  // namespace
}  // namespace trireme
