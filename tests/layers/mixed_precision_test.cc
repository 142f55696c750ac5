// Mixed precision: casts in programs, kernels between casts, the rule of the scale.
#include "layers/mixed_precision.h"

#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using trireme::testing::floats;
using trireme::testing::numbers;

Var& float_data(Net& net, const std::string& name, const Shape& shape) {
  return net.main->global_block().create_var(
      {.name = name, .dtype = DType::float32, .shape = shape, .is_data = true});
}

TEST(MixedPrecision, CastsStandBetweenWhiteAndBlackOps) {
  Net net;
  Var& x = float_data(net, "x", {2, 2});
  Var& product = layers::matmul(x, x);
  Var& sum = layers::relu(product);
  layers::exp(sum);
  mixed_precision::rewrite_program(*net.main, mixed_precision::op_lists(), DType::bfloat16);
  EXPECT_EQ(ops_of(net.main->global_block()),
            "cast(x) -> x.cast_bf16; matmul(x.cast_bf16, x.cast_bf16) -> matmul_0.tmp_0; "
            "relu(matmul_0.tmp_0) -> relu_0.tmp_0; cast(relu_0.tmp_0) -> relu_0.tmp_0.cast_fp32; "
            "exp(relu_0.tmp_0.cast_fp32) -> exp_0.tmp_0");
  EXPECT_EQ(sum.dtype(), DType::bfloat16);
}

TEST(MixedPrecision, ACastServesUntilItsVariableIsWritten) {
  Net net;
  Var& x = float_data(net, "x", {2, 2});
  layers::matmul(x, x);
  layers::matmul(x, x);
  layers::assign(layers::exp(x), &x);
  layers::matmul(x, x);
  mixed_precision::rewrite_program(*net.main, mixed_precision::op_lists());
  EXPECT_EQ(types_of(net.main->global_block()), "cast matmul matmul exp assign cast matmul");
}

// Ops without a kernel for half precision compute in float32 and round what they return.
TEST(MixedPrecision, HalfOperandsAreWidenedAndResultsRounded) {
  for (const DType half : {DType::float16, DType::bfloat16}) {
    Net net;
    Var& x = float_data(net, "x", {1, 3});
    Var& y = float_data(net, "y", {3, 1});
    Var& product = layers::matmul(layers::cast(x, half), layers::cast(y, half));
    Var& back = layers::cast(product, DType::float32);
    EXPECT_EQ(product.dtype(), half);
    const Feeds feeds = {{"x", floats({1, 3}, {1.001f, 2.003f, -3})},
                         {"y", floats({3, 1}, {0.1f, 10.01f, 0.7f})}};
    const auto round = [&](double v) {
      return half == DType::float16 ? double(float(float16(float(v))))
                                    : double(float(bfloat16(float(v))));
    };
    const double expected = round(round(1.001f) * round(0.1f) + round(2.003f) * round(10.01f) +
                                  round(-3) * round(0.7f));
    EXPECT_THAT(numbers(net.run(feeds, back)), ElementsAre(expected));
  }
}

TEST(MixedPrecision, TheScaleFollowsOverflow) {
  const auto run = [](bool infinite, float scale, int good, int bad) {
    trireme::testing::Tensors out = trireme::testing::run_op(
        {.type = "update_loss_scaling",
         .inputs = {{"X", {floats({2}, {1, 2})}},
                    {"FoundInfinite", {make_tensor<bool>({1}, {infinite})}},
                    {"PrevLossScaling", {floats({1}, {scale})}},
                    {"InGoodSteps", {make_tensor<int32_t>({1}, {good})}},
                    {"InBadSteps", {make_tensor<int32_t>({1}, {bad})}}},
         .attrs = {{"incr_every_n_steps", 3},
                   {"decr_every_n_nan_or_inf", 2},
                   {"incr_ratio", 2.0f},
                   {"decr_ratio", 0.5f}}});
    std::vector<double> first;
    for (const char* slot : {"Out", "LossScaling", "OutGoodSteps", "OutBadSteps"}) {
      first.push_back(numbers(out.at(slot).at(0))[0]);
    }
    return first;
  };
  EXPECT_THAT(run(false, 8, 0, 1), ElementsAre(1, 8, 1, 0));
  EXPECT_THAT(run(false, 8, 2, 0), ElementsAre(1, 16, 0, 0));
  EXPECT_THAT(run(true, 8, 2, 0), ElementsAre(0, 8, 0, 1));
  EXPECT_THAT(run(true, 8, 0, 1), ElementsAre(0, 4, 0, 0));
  EXPECT_THAT(run(true, 1, 0, 1), ElementsAre(0, 1, 0, 0));
}

TEST(MixedPrecision, WrongUses) {
  Net net;
  EXPECT_THAT(error_of([] { mixed_precision::op_lists({"mul"}, {"mul"}); }),
              HasSubstr("mul is in the white list and in the black list"));
  EXPECT_THAT(error_of([&] {
                mixed_precision::rewrite_program(*net.main, mixed_precision::op_lists(),
                                                 DType::float64);
              }),
              HasSubstr("mixed precision in float64"));
  EXPECT_THAT(error_of([] { mixed_precision::OptimizerWithMixedPrecision(nullptr, {}); }),
              HasSubstr("the optimizer to decorate is missing"));
}

}  // namespace
}  // namespace trireme
