// A program with control flow, run in a scope of its own and checked by finite differences.
#pragma once

#include <gmock/gmock.h>

#include <set>

#include "ir/backward.h"
#include "runtime/executor.h"
#include "tests/layers/build.h"
#include "tests/support/op_runner.h"

namespace trireme {

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

// Ops of the programs that expect_gradients compared with differences.
inline std::set<std::string>& compared_with_differences() {
  static std::set<std::string> types;
  return types;
}

// d(sum of target)/d(feed) as the program says and as differences say.
inline void expect_gradients(Net& net, Var& target, Feeds feeds, const std::vector<Var*>& inputs,
                             double tolerance = 1e-7) {
  for (size_t b = 0; b < net.main->num_blocks(); ++b) {
    for (const Op* op : net.main->block(static_cast<int>(b)).ops()) {
      compared_with_differences().insert(op->type());
    }
  }
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

inline Tensor some(const Shape& shape, double from = -0.7) {
  Tensor tensor(DType::float64, shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<double>()[i] =
        from + 0.37 * static_cast<double>(i % 5) - 0.11 * static_cast<double>(i % 3);
  }
  return tensor;
}

// h = x; T times: h = tanh(h w).
inline Var& powers(Net& net, Var& x, Var& w, int64_t steps) {
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

}  // namespace trireme
