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

// [a, batch, c]: sequences [begin, end) of the batch.
Tensor of_batch(const Tensor& all, int64_t begin, int64_t end) {
  const Shape& shape = all.shape();
  const int64_t outer = shape.at(0), batch = shape.at(1), width = shape.at(2);
  Tensor part(DType::float64, {outer, end - begin, width});
  for (int64_t i = 0; i < outer; ++i) {
    std::copy_n(all.data<double>() + (i * batch + begin) * width, (end - begin) * width,
                part.data<double>() + i * (end - begin) * width);
  }
  return part;
}

// Sequences of a batch do not meet: many, which run in groups, are as a few at a time.
TEST(CudnnLstm, OfManySequencesIsThatOfAFew) {
  constexpr int64_t kBatch = 40, kFew = 10, kTime = 3, kInput = 5, kHidden = 24;
  for (const bool both_ways : {false, true}) {
    const int64_t ways = both_ways ? 2 : 1, states = 2 * ways;
    const int64_t weights = ways * 4 * kHidden * (kInput + kHidden + 2) +
                            ways * 4 * kHidden * (ways * kHidden + kHidden + 2);
    Draw draw(12);
    const Tensors all = {{"Input", {draw.uniform({kTime, kBatch, kInput})}},
                         {"InitH", {draw.uniform({states, kBatch, kHidden})}},
                         {"InitC", {draw.uniform({states, kBatch, kHidden})}},
                         {"W", {draw.uniform({weights})}},
                         {"Out@GRAD", {draw.uniform({kTime, kBatch, ways * kHidden})}},
                         {"last_h@GRAD", {draw.uniform({states, kBatch, kHidden})}},
                         {"last_c@GRAD", {draw.uniform({states, kBatch, kHidden})}}};
    const auto run = [&](int64_t begin, int64_t end) {
      OpCall call{.type = "cudnn_lstm",
                  .attrs = {{"hidden_size", static_cast<int32_t>(kHidden)},
                            {"num_layers", 2},
                            {"is_bidirec", both_ways}},
                  .outputs = {"Out", "last_h", "last_c"},
                  .cut = true};
      Tensors back;
      for (const auto& [name, tensors] : all) {
        const Tensor part = name == "W" ? tensors[0] : of_batch(tensors[0], begin, end);
        (name.ends_with("@GRAD") ? back : call.inputs)[name] = {part};
      }
      Tensors found = run_op(call);
      call.type = "cudnn_lstm_grad";
      call.inputs["Out"] = found.at("Out");
      call.inputs.insert(back.begin(), back.end());
      call.outputs = {"Input@GRAD", "InitH@GRAD", "InitC@GRAD", "W@GRAD"};
      const Tensors gradients = run_op(call);
      found.insert(gradients.begin(), gradients.end());
      return found;
    };
    const Tensors whole = run(0, kBatch);
    std::vector<double> sum(static_cast<size_t>(weights));
    for (int64_t begin = 0; begin < kBatch; begin += kFew) {
      const Tensors some = run(begin, begin + kFew);
      for (const auto& [name, tensors] : some) {
        if (name != "W@GRAD") {
          const Tensor same = of_batch(whole.at(name)[0], begin, begin + kFew);
          EXPECT_LE(max_abs_diff(tensors[0], same), 1e-12) << name << " " << both_ways;
          continue;
        }
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += tensors[0].data<double>()[i];
      }
    }
    EXPECT_LE(max_abs_diff(whole.at("W@GRAD")[0], doubles({weights}, sum)), 1e-10) << both_ways;
  }
}

}  // namespace
}  // namespace trireme::testing
