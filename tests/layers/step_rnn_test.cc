// StaticRNN and DynamicRNN against the same networks unrolled.
#include <cmath>

#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

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

}  // namespace
}  // namespace trireme
