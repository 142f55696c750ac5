// Wrong uses of activations, elementwise ops, comparisons, reductions and losses.
#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using Axes = std::vector<int32_t>;

const Tensor kWhole = longs({2}, {1, 2});
const Tensor kReal = floats({2}, {1, 2});
const Tensor kThree = floats({3}, {1, 2, 3});
const Tensor kMatrix = floats({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(WrongUse, FunctionsOfOneVariableTakeRealNumbers) {
  std::vector<WrongUse> uses;
  for (const char* op : {"abs",
                         "ceil",
                         "cos",
                         "elu",
                         "erf",
                         "exp",
                         "floor",
                         "gelu",
                         "hard_shrink",
                         "hard_sigmoid",
                         "log",
                         "log1p",
                         "logsigmoid",
                         "reciprocal",
                         "relu",
                         "relu6",
                         "round",
                         "rsqrt",
                         "selu",
                         "sigmoid",
                         "sin",
                         "soft_relu",
                         "softsign",
                         "sqrt",
                         "stanh",
                         "swish",
                         "tanh",
                         "tanh_shrink",
                         "thresholded_relu"}) {
    uses.push_back({op, {{"X", {kWhole}}}, {}, "X holds int64 but must hold real numbers"});
  }
  expect_refused(uses);
}

TEST(WrongUse, AttributesOfActivationsHaveTheirRanges) {
  expect_refused({
      {"leaky_relu", {{"X", {kReal}}}, {{"alpha", -1.0f}}, "attribute alpha is -1"},
      {"softshrink", {{"X", {kReal}}}, {{"lambda", -0.5f}}, "attribute lambda is -0.5"},
      {"brelu", {{"X", {kReal}}}, {{"t_min", 3.0f}, {"t_max", 1.0f}}, "t_min is 3 but t_max is 1"},
      {"hard_swish",
       {{"X", {kReal}}},
       {{"scale", 0.0f}},
       "scale is 0, which the result is divided by"},
      {"softplus", {{"X", {kReal}}}, {{"beta", 0.0f}}, "beta is 0, which the result is divided by"},
      {"prelu",
       {{"X", {kMatrix}}, {"Alpha", {kReal}}},
       {},
       "Alpha [2] has 2 elements but mode all"},
      {"pow", {{"X", {kReal}}, {"FactorTensor", {kThree}}}, {}, "FactorTensor has shape [3]"},
  });
}

TEST(WrongUse, BinaryOpsNameTheShapesAndTypesThatDiffer) {
  std::vector<WrongUse> uses;
  for (const char* op : {"elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div",
                         "elementwise_pow", "elementwise_max", "elementwise_min", "elementwise_mod",
                         "elementwise_floordiv"}) {
    uses.push_back({op, {{"X", {kMatrix}}, {"Y", {kReal}}}, {}, "[2, 3]"});
    uses.push_back(
        {op, {{"X", {kReal}}, {"Y", {kWhole}}}, {}, "X holds float32 but Y holds int64"});
  }
  for (const char* op :
       {"less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal"}) {
    uses.push_back(
        {op, {{"X", {kReal}}, {"Y", {kWhole}}}, {}, "X holds float32 but Y holds int64"});
  }
  for (const char* op : {"logical_and", "logical_or", "logical_xor"}) {
    uses.push_back(
        {op, {{"X", {kWhole}}, {"Y", {kWhole}}}, {}, "X holds int64 but must hold bool"});
  }
  uses.push_back({"logical_not", {{"X", {kReal}}}, {}, "X holds float32 but must hold bool"});
  expect_refused(uses);
}

TEST(WrongUse, ReductionsNameTheAxisAndTheType) {
  const Tensor truth = cast(kMatrix, DType::boolean);
  std::vector<WrongUse> uses;
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
    uses.push_back(
        {op, {{"X", {kMatrix}}}, {{"dim", Axes{2}}}, "dim is 2 but there are 2 dimensions"});
  }
  for (const char* op : {"reduce_all", "reduce_any"}) {
    uses.push_back(
        {op, {{"X", {truth}}}, {{"dim", Axes{-3}}}, "dim is -3 but there are 2 dimensions"});
    uses.push_back({op, {{"X", {kMatrix}}}, {}, "X holds float32"});
  }
  expect_refused(uses);
  expect_refused({
      {"mean", {{"X", {kWhole}}}, {}, "X holds int64"},
      {"squared_l2_norm", {{"X", {kWhole}}}, {}, "X holds int64"},
      {"norm", {{"X", {kMatrix}}}, {{"axis", 2}}, "axis is 2 but there are 2 dimensions"},
      {"cumsum", {{"X", {kMatrix}}}, {{"axis", -3}}, "axis is -3 but there are 2 dimensions"},
      {"top_k_v2", {{"X", {kMatrix}}}, {{"k", 4}}, "k is 4 but dimension 1 of X [2, 3] has 3"},
      {"argsort", {{"X", {kMatrix}}}, {{"axis", 2}}, "axis is 2 but there are 2 dimensions"},
      {"arg_min",
       {{"X", {kMatrix}}},
       {{"axis", int64_t{0}}, {"dtype", static_cast<int32_t>(DType::float32)}},
       "dtype is float32"},
      {"arg_max",
       {{"X", {kMatrix}}},
       {{"axis", int64_t{2}}},
       "axis is 2 but there are 2 dimensions"},
  });
}

TEST(WrongUse, NumbersAndTheirTypes) {
  expect_refused({
      {"scale", {{"X", {kReal}}, {"ScaleTensor", {kThree}}}, {}, "ScaleTensor has shape [3]"},
      {"cast",
       {{"X", {kReal}}},
       {{"in_dtype", 5}, {"out_dtype", 77}},
       "out_dtype is 77, which is no element type"},
      {"clip", {{"X", {kReal}}}, {{"min", 2.0f}, {"max", 1.0f}}, "min is 2 and max is 1"},
      {"sign", {{"X", {cast(kReal, DType::boolean)}}}, {}, "X holds bool"},
      {"square", {{"X", {cast(kReal, DType::boolean)}}}, {}, "X holds bool"},
      {"increment", {{"X", {kReal}}}, {}, "X has shape [2] but must be one number"},
      {"label_smooth", {{"X", {kMatrix}}}, {{"epsilon", 1.5f}}, "attribute epsilon is 1.5"},
      {"cos_sim",
       {{"X", {kMatrix}}, {"Y", {floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})}}},
       {},
       "dimension 0 is 2 in X but 3 in Y"},
      {"isfinite", {{"X", {cast(kReal, DType::boolean)}}}, {}, "X holds bool"},
      {"isinf", {{"X", {cast(kReal, DType::boolean)}}}, {}, "X holds bool"},
      {"isnan", {{"X", {cast(kReal, DType::boolean)}}}, {}, "X holds bool"},
      {"sum", {{"X", {kReal, kThree}}}, {}, "[3]"},
  });
}

TEST(WrongUse, LossesNameWhatDoesNotFit) {
  expect_refused({
      {"log_loss",
       {{"Predicted", {kReal}}, {"Labels", {kThree}}},
       {{"epsilon", 0.1f}},
       "Predicted has shape [2] but Labels has [3]"},
      {"sigmoid_cross_entropy_with_logits",
       {{"X", {kReal}}, {"Label", {kThree}}},
       {},
       "X has shape [2] but Label has [3]"},
      {"smooth_l1_loss", {{"X", {kReal}}, {"Y", {kReal}}}, {}, "X has 1 dimensions"},
      {"huber_loss",
       {{"X", {kReal}}, {"Y", {kThree}}},
       {{"delta", 1.0f}},
       "X has shape [2] but Y has [3]"},
      {"bpr_loss",
       {{"X", {kMatrix}}, {"Label", {longs({2, 1}, {0, 3})}}},
       {},
       "Label[1] is 3 but X has 3 classes"},
      {"cross_entropy2", {{"X", {kMatrix}}, {"Label", {longs({2, 1}, {0, 3})}}}, {}, "3"},
      {"dropout", {{"X", {kReal}}}, {{"dropout_prob", 1.5f}}, "attribute dropout_prob is 1.5"},
      {"accuracy",
       {{"Out", {kMatrix}},
        {"Indices", {longs({2, 1}, {0, 1})}},
        {"Label", {longs({3, 1}, {0, 1, 2})}}},
       {},
       "Indices has shape [2, 1] and Label [3, 1]"},
      {"auc",
       {{"Predict", {kMatrix}},
        {"Label", {longs({2, 1}, {0, 1})}},
        {"StatPos", {longs({1, 3}, {0, 0, 0})}},
        {"StatNeg", {longs({1, 3}, {0, 0, 0})}}},
       {{"num_thresholds", 7}},
       "StatPos has 3 counts, but num_thresholds 7"},
  });
}

}  // namespace
}  // namespace trireme::testing
