// Wrong uses of windows, normalisations, recurrences, samplers and optimizers: a right use of each
// with one operand or attribute spoiled.
#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using Lengths = std::vector<int32_t>;

const Tensor kFlat = doubles({2, 3}, {1, 2, 3, 4, 5, 6});
const Tensor kSeven = doubles({7}, {1, 2, 3, 4, 5, 6, 7});

TEST(WrongUse, WindowsNameTheirSizes) {
  std::vector<WrongUse> uses;
  for (const char* op : {"conv2d", "depthwise_conv2d", "conv3d", "conv2d_transpose",
                         "depthwise_conv2d_transpose", "conv3d_transpose"}) {
    uses.push_back(spoiled(op, {{"Input", {kFlat}}}, {}, "has 2 dimensions [2, 3] but "));
    uses.push_back(spoiled(op, {}, {{"strides", Lengths{1}}}, "strides has 1 numbers [1] but"));
    uses.push_back(spoiled(op, {}, {{"groups", 0}}, "attribute groups is 0"));
  }
  for (const char* op : {"pool2d", "pool3d", "max_pool2d_with_index"}) {
    uses.push_back(spoiled(op, {{"X", {kFlat}}}, {}, "X has 2 dimensions [2, 3] but "));
    uses.push_back(spoiled(op, {}, {{"ksize", Lengths{1}}, {"global_pooling", false}},
                           "ksize has 1 numbers [1] but"));
  }
  uses.push_back(spoiled("im2sequence", {{"X", {kFlat}}}, {}, "[2, 3]"));
  expect_refused(uses);
}

TEST(WrongUse, NormalisationsNameTheirChannels) {
  std::vector<WrongUse> uses;
  for (const char* op : {"batch_norm", "sync_batch_norm", "inplace_abn", "fused_batch_norm_act",
                         "fused_bn_add_activation"}) {
    uses.push_back(spoiled(op, {{"Scale", {kSeven}}}, {}, "Scale has 7 numbers but X has"));
  }
  uses.push_back(
      spoiled("data_norm", {{"BatchSum", {kSeven}}}, {}, "BatchSum has shape [7] but X"));
  uses.push_back(spoiled("group_norm", {}, {{"groups", 0}}, "attribute groups is 0"));
  uses.push_back(spoiled("instance_norm", {{"X", {kSeven}}}, {}, "X has 1 dimensions [7]"));
  uses.push_back(spoiled("layer_norm", {}, {{"begin_norm_axis", 9}}, "begin_norm_axis is 9 but"));
  expect_refused(uses);
}

TEST(WrongUse, RecurrencesAndSamplersNameTheirWidths) {
  expect_refused({
      spoiled("cudnn_lstm", {{"W", {kSeven}}}, {}, "W has 7 numbers but"),
      spoiled("gru", {{"Weight", {kFlat}}}, {}, "Weight"),
      spoiled("gru_unit", {{"Weight", {kFlat}}}, {}, "Weight"),
      spoiled("lstmp", {{"ProjWeight", {kSeven}}}, {}, "ProjWeight"),
      spoiled("lstm_unit", {{"C_prev", {kSeven}}}, {}, "C_prev [7]"),
      spoiled("row_conv", {{"Filter", {kSeven}}}, {}, "and Filter [7]"),
      spoiled("spectral_norm", {{"U", {kSeven}}}, {}, "U has shape [7] but Weight"),
      spoiled("bilinear_tensor_product", {{"Weight", {kSeven}}}, {}, "Weight has shape [7] but X"),
      spoiled("nce", {{"Bias", {kSeven}}}, {}, "Bias has shape [7] but there are"),
      spoiled("nce", {}, {{"num_neg_samples", 0}}, "attribute num_neg_samples is 0"),
      spoiled("hierarchical_sigmoid", {}, {{"num_classes", 1}}, "num_classes is 1"),
      spoiled("sample_logits", {}, {{"num_samples", 0}}, "attribute num_samples is 0"),
      spoiled("fused_elemwise_activation", {},
              {{"functor_list", std::vector<std::string>{"relu", "scale"}}},
              "functor_list is [relu, scale]"),
  });
}

TEST(WrongUse, OptimizersNameTheGradientAndTheState) {
  std::vector<WrongUse> uses;
  for (const char* op : {"sgd", "momentum", "adam", "adagrad", "decayed_adagrad", "adadelta",
                         "adamax", "rmsprop", "ftrl", "lars_momentum", "lamb", "dpsgd"}) {
    uses.push_back(spoiled(op, {{"Grad", {kSeven}}}, {}, "Grad has shape [7] but Param has"));
    uses.push_back(spoiled(op, {{"Grad", {cast(kSeven, DType::float32)}}}, {},
                           "Grad is float32 but Param is float64"));
  }
  for (const char* op :
       {"sgd", "momentum", "adam", "adagrad", "adamax", "rmsprop", "ftrl", "lamb"}) {
    uses.push_back(
        spoiled(op, {{"LearningRate", {kSeven}}}, {}, "LearningRate has shape [7] but holds one"));
  }
  uses.push_back(spoiled("momentum", {{"Velocity", {kSeven}}}, {}, "Velocity has shape [7]"));
  uses.push_back(spoiled("adam", {{"Moment2", {kSeven}}}, {}, "Moment2 has shape [7] but Param"));
  expect_refused(uses);
}

TEST(WrongUse, MeansAndLossScalesNameTheirStates) {
  const Tensor one = longs({1}, {0}), state = floats({2}, {0, 0});
  const Tensor steps = cast(one, DType::int32);
  expect_refused({
      {"average_accumulates",
       {{"param", {state}},
        {"in_sum_1", {floats({3}, {0, 0, 0})}},
        {"in_sum_2", {state}},
        {"in_sum_3", {state}},
        {"in_num_accumulates", {one}},
        {"in_old_num_accumulates", {one}},
        {"in_num_updates", {one}}},
       {{"max_average_window", int64_t{10}}, {"min_average_window", int64_t{2}}},
       "in_sum_1 has shape [3] but param has [2]"},
      {"check_finite_and_unscale",
       {{"X", {state}}, {"Scale", {state}}},
       {},
       "Scale has shape [2] but holds one number"},
      {"update_loss_scaling",
       {{"X", {state}},
        {"FoundInfinite", {cast(one, DType::boolean)}},
        {"PrevLossScaling", {state}},
        {"InGoodSteps", {steps}},
        {"InBadSteps", {steps}}},
       {{"incr_every_n_steps", 2},
        {"decr_every_n_nan_or_inf", 2},
        {"incr_ratio", 2.0f},
        {"decr_ratio", 0.5f}},
       "PrevLossScaling has shape [2] but holds one number"},
  });
}

}  // namespace
}  // namespace trireme::testing
