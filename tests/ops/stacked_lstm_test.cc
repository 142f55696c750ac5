// cudnn_lstm: one cell by hand, directions and layers against single runs.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/small.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

OpCall lstm(const Tensor& x, const Tensor& w, int64_t states, int64_t hidden, Attrs attrs = {}) {
  const Shape state = {states, x.shape()[1], hidden};
  attrs["hidden_size"] = static_cast<int32_t>(hidden);
  return {.type = "cudnn_lstm",
          .inputs = {{"Input", {x}},
                     {"InitH", {filled(DType::float64, state, 0.5)}},
                     {"InitC", {filled(DType::float64, state, -0.25)}},
                     {"W", {w}}},
          .attrs = std::move(attrs),
          .outputs = {"Out", "last_h", "last_c"}};
}

TEST(CudnnLstm, OneStepOfOneCell) {
  // From the input i, f, c, o; from the hidden state the same; then both biases.
  const std::vector<double> w = {0.1,  0.2,  0.3,  0.4,  0.5,  0.6,  0.7,  0.8,
                                 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08};
  const Tensors out = run_op(lstm(doubles({1, 1, 1}, {2}), doubles({16}, w), 1, 1));
  const auto gate = [&](size_t g) { return 2 * w[g] + 0.5 * w[4 + g] + w[8 + g] + w[12 + g]; };
  const double cell = sigmoid(gate(1)) * -0.25 + sigmoid(gate(0)) * std::tanh(gate(2));
  const double hidden = sigmoid(gate(3)) * std::tanh(cell);
  EXPECT_NEAR(numbers(out.at("Out")[0])[0], hidden, 1e-12);
  EXPECT_NEAR(numbers(out.at("last_h")[0])[0], hidden, 1e-12);
  EXPECT_NEAR(numbers(out.at("last_c")[0])[0], cell, 1e-12);
}

TEST(CudnnLstm, TheSecondDirectionRunsFromTheEnd) {
  constexpr int64_t kHidden = 2, kCells = 3, kOne = 4 * kHidden * (kCells + kHidden);
  Draw draw(8);
  const Tensor x = draw.uniform({4, 1, kCells});
  const Tensor matrices = draw.uniform({kOne}), biases = draw.uniform({8 * kHidden});
  std::vector<double> one = numbers(matrices), both = numbers(matrices);
  const std::vector<double> bias = numbers(biases), again = numbers(matrices);
  one.insert(one.end(), bias.begin(), bias.end());
  both.insert(both.end(), again.begin(), again.end());
  both.insert(both.end(), bias.begin(), bias.end());
  both.insert(both.end(), bias.begin(), bias.end());
  Tensor reversed = x.clone();
  for (int64_t t = 0; t < 4; ++t) {
    std::copy_n(x.data<double>() + (3 - t) * kCells, kCells, reversed.data<double>() + t * kCells);
  }
  const auto size = [](const std::vector<double>& w) { return static_cast<int64_t>(w.size()); };
  const Tensors forward = run_op(lstm(x, doubles({size(one)}, one), 1, kHidden));
  const Tensors back = run_op(lstm(reversed, doubles({size(one)}, one), 1, kHidden));
  const Tensors two =
      run_op(lstm(x, doubles({size(both)}, both), 2, kHidden, {{"is_bidirec", true}}));
  const double* out = two.at("Out")[0].data<double>();
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t j = 0; j < kHidden; ++j) {
      EXPECT_NEAR(out[t * 4 + j], forward.at("Out")[0].data<double>()[t * 2 + j], 1e-12);
      EXPECT_NEAR(out[t * 4 + 2 + j], back.at("Out")[0].data<double>()[(3 - t) * 2 + j], 1e-12);
    }
  }
}

TEST(CudnnLstm, DropoutStandsBetweenLayersAndNotInTests) {
  const int64_t weights = 2 * 4 * (1 + 1 + 2);
  Draw draw(9);
  const Tensor x = draw.uniform({50, 1, 1}), w = draw.uniform({weights});
  const auto out = [&](float drop, bool test) {
    return run_op(lstm(x, w, 2, 1,
                       {{"num_layers", 2}, {"dropout_prob", drop}, {"is_test", test}, {"seed", 3}}))
        .at("Out")[0];
  };
  EXPECT_EQ(max_abs_diff(out(0.5f, true), out(0, false)), 0);
  EXPECT_GT(max_abs_diff(out(0.5f, false), out(0, false)), 0);
  EXPECT_EQ(max_abs_diff(out(0.5f, false), out(0.5f, false)), 0);
}

TEST(CudnnLstm, AWrongNumberOfWeightsIsNamed) {
  EXPECT_THAT(error_of([] {
                run_op(lstm(doubles({1, 1, 1}, {2}), doubles({3}, {1, 2, 3}), 1, 1));
              }),
              HasSubstr("W has 3 numbers but 16 are needed"));
}

}  // namespace
}  // namespace trireme::testing
