// Small nets with loops and branches, and one of them as a program that runs.
#pragma once

#include <functional>
#include <numeric>

#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"

namespace trireme::testing {

inline constexpr int64_t kWidth = 3;

inline Tensor varied(const Shape& shape) {
  Tensor tensor(DType::float32, shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] = 0.4f * static_cast<float>(i % 5) - 0.7f;
  }
  return tensor;
}

inline Tensor sequences(const std::vector<int64_t>& lengths) {
  Tensor x = varied({std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), kWidth});
  x.set_lod(lod_from_lengths({lengths}));
  return x;
}

inline Var& number(int64_t value) { return layers::fill_constant({1}, DType::int64, value); }
inline Var& dense(Var& x) {
  return layers::fc(x, {.size = kWidth, .num_flatten_dims = x.shape().rank() - 1, .act = "tanh"});
}

// A net made of `x`, [n, kWidth] where nothing else is said, and what is fed for it.
struct LoopNet {
  std::string name;
  std::function<Var&(Var& x)> build;
  Tensor x = varied({4, kWidth});
  std::vector<int64_t> shape = {-1, kWidth};
  int lod_level = 0;
};

// h = fc(h), `passes` times.
inline Var& looped(Var& x, int64_t passes, const std::function<Var&(Var&)>& step) {
  Var& i = number(0);
  Var& n = number(passes);
  Var& h = layers::scale(x);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    layers::assign(step(h), &h);
    layers::increment(i);
    layers::less_than(i, n, &more);
  });
  return h;
}

// Every pass reads an element of an array and writes the next one.
inline Var& through_an_array(Var& x) {
  Var& i = number(0);
  Var& n = number(5);
  Var& array = layers::array_write(x, i);
  Var& more = layers::less_than(i, n);
  layers::While loop(more);
  loop.run([&] {
    Var& h = dense(layers::array_read(array, i));
    layers::increment(i);
    layers::array_write(h, i, &array);
    layers::less_than(i, n, &more);
  });
  return layers::array_read(array, n);
}

inline Var& static_rnn(Var& x) {
  layers::StaticRNN rnn;
  rnn.step([&] {
    Var& word = rnn.step_input(x);
    Var& before = rnn.memory({.shape = {-1, kWidth}, .batch_ref = &word});
    Var& next = layers::fc({word, before}, {.size = kWidth, .act = "tanh"});
    rnn.update_memory(before, next);
    rnn.step_output(next);
  });
  return *rnn()[0];
}

// So wide that passes' gradients of a weight are not added up one by one.
inline Var& wide_rnn(Var& x) {
  constexpr int64_t kWide = 160;
  layers::StaticRNN rnn;
  rnn.step([&] {
    Var& word = rnn.step_input(x);
    Var& before = rnn.memory({.shape = {-1, kWide}, .batch_ref = &word});
    Var& next = layers::fc({word, before}, {.size = kWide, .act = "tanh"});
    rnn.update_memory(before, next);
    rnn.step_output(next);
  });
  return *rnn()[0];
}

// [n, kWidth] as a sequence of three.
inline Var& three_of(Var& x) {
  return layers::stack({x, layers::scale(x, {.scale = 0.5}), layers::scale(x, {.scale = -1})}, 0);
}

// Each pass of a loop is a loop with a branch in it.
inline Var& rnn_in_rnn(Var& x) {
  Var& words = three_of(x);
  layers::StaticRNN outer;
  outer.step([&] {
    Var& word = outer.step_input(words);
    Var& before = outer.memory({.init = &x});
    Var& again = three_of(word);
    layers::StaticRNN inner;
    inner.step([&] {
      Var& letter = inner.step_input(again);
      Var& state = inner.memory({.init = &before});
      Var& next = layers::fc({letter, state}, {.size = kWidth, .act = "tanh"});
      inner.update_memory(state, next);
      inner.step_output(next);
    });
    Var& next = layers::reduce_mean(*inner()[0], {.dim = {0}});
    outer.update_memory(before, next);
    outer.step_output(next);
  });
  return *outer()[0];
}

// Every pass adds rows to the gradient of the table.
inline Var& static_rnn_of_words(Var& x) {
  Var& ids = layers::fill_constant({4, 1}, DType::int64, 2);
  layers::StaticRNN rnn;
  rnn.step([&] {
    Var& word = rnn.step_input(x);
    Var& before = rnn.memory({.shape = {-1, kWidth}, .batch_ref = &word});
    Var& next = layers::tanh(word + before +
                             layers::embedding(ids, {.size = {7, kWidth}, .is_sparse = true}));
    rnn.update_memory(before, next);
    rnn.step_output(next);
  });
  return *rnn()[0];
}

inline Var& dynamic_rnn(Var& x) {
  layers::DynamicRNN rnn;
  rnn.block([&] {
    Var& word = rnn.step_input(x);
    Var& before = rnn.memory({.shape = {kWidth}, .value = 0.25});
    Var& next = layers::fc({word, before}, {.size = kWidth, .act = "tanh"});
    rnn.update_memory(before, next);
    rnn.output(next);
  });
  return *rnn()[0];
}

inline Var& first_column_below_zero(Var& x) {
  Var& zero = layers::fill_constant_batch_size_like(x, {-1, 1}, DType::float32, 0.0);
  return layers::less_than(layers::slice(x, {1}, {0}, {1}), zero);
}

inline Var& by_row(Var& x) {
  layers::IfElse ways(first_column_below_zero(x));
  ways.true_block([&] { ways.output(dense(ways.input(x))); });
  ways.false_block([&] { ways.output(layers::scale(ways.input(x), {.scale = 2})); });
  return *ways()[0];
}

// A branch is taken in some passes of a loop only.
inline Var& cond_in_rnn(Var& x) {
  Var& words = three_of(x);
  Var& limits = layers::stack({number(1), number(3), number(0)}, 0);
  layers::StaticRNN rnn;
  rnn.step([&] {
    Var& word = rnn.step_input(words);
    Var& below = layers::less_than(number(1), rnn.step_input(limits));
    Var& before = rnn.memory({.init = &x});
    Var& next = *layers::cond(
        below, [&] { return std::vector<Var*>{&dense(word + before)}; },
        [&] { return std::vector<Var*>{&layers::scale(before, {.scale = 0.7})}; })[0];
    rnn.update_memory(before, next);
    rnn.step_output(next);
  });
  return *rnn()[0];
}

inline Var& by_number(Var& x) {
  Var& below = layers::less_than(number(1), number(2));
  return *layers::cond(
      below, [&] { return std::vector<Var*>{&dense(x)}; },
      [&] { return std::vector<Var*>{&layers::scale(x, {.scale = 2})}; })[0];
}

struct LoopProgram {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  Scope scope;
  Executor exe;
  RunOptions options{.scope = &scope, .threads = 1};

  LoopProgram(const LoopNet& net, bool trains) {
    const UniqueNameGuard own_names;
    const ProgramGuard guard(main, startup);
    Var& x = main->global_block().create_var({.name = "x",
                                              .dtype = DType::float32,
                                              .shape = Shape(net.shape),
                                              .lod_level = net.lod_level,
                                              .is_data = true});
    // Its gradient is wanted too: sequences are put together again.
    Var& loss = layers::mean(layers::square(net.build(dense(x))));
    loss.set_persistable(true);
    // Little by little: no row of IfElse comes to go the other way, which would change shapes.
    if (trains) optimizer::Sgd(1e-4).minimize(loss);
    exe.run(*startup, {}, {}, options);
  }

  void run(const Tensor& x) { exe.run(*main, {{"x", x}}, {}, options); }
};

}  // namespace trireme::testing
