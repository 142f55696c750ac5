// The ops, names and parameters of the layers.
#include "layers/nn.h"

#include <gmock/gmock.h>

#include "tests/layers/build.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

Var& image(std::vector<int64_t> shape = {3, 8, 8}) { return layers::data("img", shape); }

TEST(Fc, TheWorkedExampleInBothStyles) {
  for (const Style style : {Style::fluid_1_8, Style::static_2_4}) {
    const StyleGuard as(style);
    const FreshPrograms fresh;
    Var& x = layers::data("X", {1});
    Var& hidden = layers::fc(x, {.size = 10});
    Var& loss = style == Style::fluid_1_8 ? layers::mean(hidden)
                                          : layers::reduce_mean(hidden, {.layer = "mean"});
    EXPECT_EQ(
        ops_of(fresh.main->global_block()),
        cat("mul(X, fc_0.w_0) -> fc_0.tmp_0; elementwise_add(fc_0.tmp_0, fc_0.b_0) -> "
            "fc_0.tmp_1; ",
            style == Style::fluid_1_8 ? "mean" : "reduce_mean", "(fc_0.tmp_1) -> mean_0.tmp_0"));
    EXPECT_EQ(ops_of(fresh.startup->global_block()),
              style == Style::fluid_1_8
                  ? "fill_constant() -> fc_0.b_0; uniform_random() -> fc_0.w_0"
                  : "uniform_random() -> fc_0.w_0; fill_constant() -> fc_0.b_0");
    const Block& main = fresh.main->global_block();
    EXPECT_EQ(main.var("fc_0.w_0").shape(), Shape({1, 10}));
    EXPECT_EQ(main.var("fc_0.b_0").shape(), Shape({10}));
    EXPECT_EQ(main.var("fc_0.tmp_1").shape(), Shape({-1, 10}));
    EXPECT_EQ(loss.shape(), Shape({1}));
    EXPECT_EQ(main.op(1).attr<int>("axis"), 1);
    EXPECT_TRUE(main.var("fc_0.w_0").is_parameter());
    EXPECT_TRUE(fresh.startup->global_block().var("fc_0.w_0").persistable());
    EXPECT_TRUE(x.is_data() && x.stop_gradient() && !x.need_check_feed());
  }
}

TEST(Fc, SeveralInputsAreSummedBeforeTheBias) {
  const FreshPrograms fresh;
  Var& a = layers::data("a", {4});
  Var& b = layers::data("b", {6});
  layers::fc({a, b}, {.size = 3, .act = "relu"});
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "mul(a, fc_0.w_0) -> fc_0.tmp_0; mul(b, fc_0.w_1) -> fc_0.tmp_1; "
            "sum(fc_0.tmp_0, fc_0.tmp_1) -> fc_0.tmp_2; "
            "elementwise_add(fc_0.tmp_2, fc_0.b_0) -> fc_0.tmp_3; relu(fc_0.tmp_3) -> fc_0.tmp_4");
}

TEST(Fc, AGivenNameIsSharedAndFalseLeavesTheBiasOut) {
  const FreshPrograms fresh;
  Var& x = layers::data("x", {4});
  layers::fc(x, {.size = 3, .param_attr = "shared", .bias_attr = false});
  layers::fc(x, {.size = 3, .param_attr = "shared", .bias_attr = false, .name = "second"});
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "mul(x, shared) -> fc_0.tmp_0; mul(x, shared) -> second.tmp_0");
  EXPECT_EQ(types_of(fresh.startup->global_block()), "uniform_random");
  EXPECT_THAT(error_of([&] { layers::fc(x, {.size = 5, .param_attr = "shared"}); }),
              ::testing::AllOf(HasSubstr("shared"), HasSubstr("nn_test.cc")));
}

TEST(Fc, ErrorsNameTheUsersLine) {
  const FreshPrograms fresh;
  Var& flat = layers::data("flat", {4});
  EXPECT_THAT(error_of([&] { layers::fc(flat, {.size = 0}); }),
              ::testing::AllOf(HasSubstr("size is 0"), HasSubstr("nn_test.cc")));
  EXPECT_THAT(error_of([&] { layers::fc(flat, {.size = 2, .num_flatten_dims = 2}); }),
              HasSubstr("num_flatten_dims is 2"));
  EXPECT_THAT(error_of([&] { layers::fc(flat, {.size = 2, .act = "rleu"}); }),
              ::testing::AllOf(HasSubstr("no activation \"rleu\""), HasSubstr("relu")));
  Var& open = layers::checked_data("open", {-1, -1});
  EXPECT_THAT(error_of([&] { layers::fc(open, {.size = 2}); }), HasSubstr("unknown"));
}

TEST(Data, PutsTheBatchInFrontUnlessADimensionIsOpen) {
  const FreshPrograms fresh;
  EXPECT_EQ(layers::data("a", {3, 4}).shape(), Shape({-1, 3, 4}));
  EXPECT_EQ(layers::data("b", {-1, 4}).shape(), Shape({-1, 4}));
  EXPECT_EQ(layers::data("c", {4}, {.append_batch_size = false}).shape(), Shape({4}));
  Var& checked = layers::checked_data("d", {-1, 4}, {.dtype = DType::int64, .lod_level = 1});
  EXPECT_TRUE(checked.need_check_feed());
  EXPECT_EQ(checked.lod_level(), 1);
}

TEST(Embedding, BothOpsAndNegativePadding) {
  const FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  EXPECT_EQ(layers::embedding(ids, {.size = {100, 8}, .is_sparse = true}).shape(), Shape({-1, 8}));
  EXPECT_EQ(layers::embedding_v2(ids, {.size = {100, 8}, .padding_idx = -1}).shape(),
            Shape({-1, 1, 8}));
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(types_of(main), "lookup_table lookup_table_v2");
  EXPECT_TRUE(main.op(0).attr<bool>("remote_prefetch"));
  EXPECT_EQ(main.op(0).attr<int64_t>("padding_idx"), -1);
  EXPECT_EQ(main.op(1).attr<int64_t>("padding_idx"), 99);
  EXPECT_THAT(error_of([&] {
                layers::embedding(layers::data("x", {1}), {.size = {10, 2}});
              }),
              HasSubstr("float32"));
}

TEST(Conv2d, NamesDefaultInitializerAndBiasAxis) {
  const FreshPrograms fresh;
  Var& out = layers::conv2d(image(), {.num_filters = 4, .filter_size = 3, .act = "relu"});
  EXPECT_EQ(out.shape(), Shape({-1, 4, 6, 6}));
  EXPECT_EQ(types_of(fresh.main->global_block()), "conv2d elementwise_add relu");
  const Op& init = fresh.startup->global_block().op(1);
  EXPECT_EQ(init.type(), "gaussian_random");
  EXPECT_FLOAT_EQ(init.attr<float>("std"), std::sqrt(2.0f / (3 * 3 * 3)));
  EXPECT_EQ(init.output("Out").front(), "conv2d_0.w_0");
}

TEST(Conv2d, PaddingForms) {
  const FreshPrograms fresh;
  Var& x = image();
  layers::conv2d(x, {.num_filters = 2, .filter_size = 3, .padding = "same", .bias_attr = false});
  layers::conv2d(x,
                 {.num_filters = 2, .filter_size = 3, .padding = {1, 1, 2, 2}, .bias_attr = false});
  layers::conv2d(x,
                 {.num_filters = 2, .filter_size = 3, .padding = {1, 0, 2, 2}, .bias_attr = false});
  layers::conv2d(x, {.num_filters = 2,
                     .filter_size = 3,
                     .padding = std::vector<std::vector<int>>{{0, 0}, {0, 0}, {1, 1}, {3, 3}},
                     .bias_attr = false});
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(main.op(0).attr<std::string>("padding_algorithm"), "SAME");
  EXPECT_EQ(main.op(1).attr<std::vector<int>>("paddings"), std::vector<int>({1, 2}));
  EXPECT_EQ(main.op(2).attr<std::vector<int>>("paddings"), std::vector<int>({1, 0, 2, 2}));
  EXPECT_EQ(main.op(3).attr<std::vector<int>>("paddings"), std::vector<int>({1, 3}));
  EXPECT_THAT(error_of([&] { layers::conv2d(x, {.num_filters = 2, .padding = "full"}); }),
              HasSubstr("\"SAME\""));
}

TEST(Conv2d, DepthwiseOnlyWithoutCudnn) {
  const FreshPrograms fresh;
  Var& x = image();
  layers::conv2d(x, {.num_filters = 3, .filter_size = 3, .groups = 3, .bias_attr = false});
  layers::conv2d(
      x, {.num_filters = 3, .filter_size = 3, .groups = 3, .bias_attr = false, .use_cudnn = false});
  EXPECT_EQ(types_of(fresh.main->global_block()), "conv2d depthwise_conv2d");
  EXPECT_THAT(error_of([&] { layers::conv2d(x, {.num_filters = 3, .groups = 2}); }),
              HasSubstr("3 channels"));
}

TEST(Pool2d, NeedsASizeUnlessGlobal) {
  const FreshPrograms fresh;
  Var& x = image();
  EXPECT_EQ(layers::pool2d(x, {.pool_size = 2, .pool_stride = 2}).shape(), Shape({-1, 3, 4, 4}));
  EXPECT_EQ(layers::pool2d(x, {.pool_type = "avg", .global_pooling = true}).shape(),
            Shape({-1, 3, 1, 1}));
  EXPECT_THAT(error_of([&] { layers::pool2d(x, {}); }), HasSubstr("global_pooling"));
}

TEST(BatchNorm, FourParametersAndInPlaceStatistics) {
  const FreshPrograms fresh;
  layers::batch_norm(image(), {.act = "relu"});
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(types_of(main), "batch_norm relu");
  const Op& op = main.op(0);
  EXPECT_EQ(op.input("Mean"), op.output("MeanOut"));
  EXPECT_EQ(op.input("Mean").front(), "batch_norm_0.w_1");
  EXPECT_EQ(op.input("Variance").front(), "batch_norm_0.w_2");
  EXPECT_EQ(op.output("Y").front(), "batch_norm_0.tmp_2");
  EXPECT_FALSE(main.var("batch_norm_0.w_1").parameter()->trainable);
  EXPECT_TRUE(main.var("batch_norm_0.w_1").stop_gradient());
  EXPECT_EQ(types_of(fresh.startup->global_block()),
            "fill_constant fill_constant fill_constant fill_constant");
}

TEST(BatchNorm, TheNewFormNamesItsStatisticsTwice) {
  const StyleGuard as(Style::static_2_4);
  const FreshPrograms fresh;
  EXPECT_EQ(layers::batch_norm(image()).name(), "batch_norm_0.tmp_3");
  const Op& op = fresh.main->global_block().op(0);
  EXPECT_EQ(op.input("MeanOut"), op.input("Mean"));
  EXPECT_EQ(op.output("ReserveSpace").front(), "batch_norm_0.tmp_2");
}

TEST(LayerNorm, ScaleAndShiftOfTheFlattenedTail) {
  const FreshPrograms fresh;
  layers::layer_norm(image(), {.begin_norm_axis = 2});
  const Op& op = fresh.main->global_block().op(0);
  EXPECT_EQ(fresh.main->global_block().var("layer_norm_0.w_0").shape(), Shape({64}));
  EXPECT_EQ(op.output("Y").front(), "layer_norm_0.tmp_2");
}

TEST(Dropout, TakesTheProgramsSeed) {
  const FreshPrograms fresh;
  fresh.main->set_seed(7);
  layers::dropout(image(), {.dropout_prob = 0.3});
  const Op& op = fresh.main->global_block().op(0);
  EXPECT_EQ(op.attr<int>("seed"), 7);
  EXPECT_TRUE(op.attr<bool>("fix_seed"));
  EXPECT_FLOAT_EQ(op.attr<float>("dropout_prob"), 0.3f);
}

TEST(CrossEntropy, HardLabelsUseTheSecondOp) {
  const FreshPrograms fresh;
  Var& p = layers::data("p", {5});
  Var& label = layers::data("label", {1}, {.dtype = DType::int64});
  EXPECT_EQ(layers::cross_entropy(p, label).name(), "cross_entropy2_0.tmp_0");
  EXPECT_EQ(layers::cross_entropy(p, p, {.soft_label = true}).name(), "cross_entropy_0.tmp_0");
  Var& loss = layers::softmax_with_cross_entropy(p, label);
  EXPECT_EQ(loss.name(), "softmax_with_cross_entropy_0.tmp_1");
  EXPECT_EQ(types_of(fresh.main->global_block()),
            "cross_entropy2 cross_entropy softmax_with_cross_entropy");
}

TEST(SquareErrorCost, IsTwoOps) {
  const FreshPrograms fresh;
  Var& y = layers::data("y", {1});
  layers::square_error_cost(layers::data("x", {1}), y);
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "elementwise_sub(x, y) -> square_error_cost_0.tmp_0; "
            "square(square_error_cost_0.tmp_0) -> square_error_cost_0.tmp_1");
}

TEST(Accuracy, TopKThenAccuracy) {
  const FreshPrograms fresh;
  Var& label = layers::data("label", {1}, {.dtype = DType::int64});
  layers::accuracy(layers::data("p", {5}), label);
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "top_k(p) -> top_k_0.tmp_1, top_k_0.tmp_0; "
            "accuracy(top_k_0.tmp_1, label, top_k_0.tmp_0) -> "
            "accuracy_0.tmp_0, accuracy_0.tmp_1, accuracy_0.tmp_2");
}

TEST(Auc, TwoOpsAndFourPersistableCounts) {
  const FreshPrograms fresh;
  Var& label = layers::data("label", {1}, {.dtype = DType::int64});
  const layers::Auc auc = layers::auc(layers::data("p", {2}), label, {.num_thresholds = 99});
  EXPECT_EQ(types_of(fresh.main->global_block()), "auc auc");
  EXPECT_EQ(auc.states[0]->name(), "_generated_var_0");
  EXPECT_EQ(auc.states[0]->shape(), Shape({201}));
  EXPECT_EQ(auc.states[3]->shape(), Shape({1, 100}));
  for (const Var* state : auc.states) EXPECT_TRUE(state->persistable());
  EXPECT_EQ(fresh.main->global_block().op(0).output("AUC").front(), auc.batch_auc.name());
  EXPECT_EQ(types_of(fresh.startup->global_block()),
            "fill_constant fill_constant fill_constant fill_constant");
}

TEST(DynamicLstm, WeightBiasAndFourOutputs) {
  const FreshPrograms fresh;
  Var& x = layers::data("x", {32}, {.lod_level = 1});
  const layers::Lstm lstm = layers::dynamic_lstm(x, {.size = 32});
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(main.var("lstm_0.w_0").shape(), Shape({8, 32}));
  EXPECT_EQ(main.var("lstm_0.b_0").shape(), Shape({1, 56}));
  EXPECT_EQ(lstm.hidden.name(), "lstm_0.tmp_0");
  EXPECT_EQ(lstm.hidden.shape(), Shape({-1, 8}));
  EXPECT_EQ(lstm.hidden.lod_level(), 1);
  EXPECT_THAT(error_of([&] { layers::dynamic_lstm(x, {.size = 36}); }), HasSubstr("32 columns"));
}

TEST(Nets, ConvPoolAndSequenceConvPool) {
  const FreshPrograms fresh;
  layers::simple_img_conv_pool(
      image(),
      {.num_filters = 4, .filter_size = 3, .pool_size = 2, .pool_stride = 2, .act = "relu"});
  EXPECT_EQ(types_of(fresh.main->global_block()), "conv2d elementwise_add relu pool2d");
  const FreshPrograms text;
  Var& words = layers::data("words", {16}, {.lod_level = 1});
  Var& out = layers::sequence_conv_pool(words, {.num_filters = 8, .filter_size = 3, .act = "tanh"});
  EXPECT_EQ(types_of(text.main->global_block()),
            "sequence_conv elementwise_add tanh sequence_pool");
  EXPECT_EQ(out.shape(), Shape({-1, 8}));
  const Op& conv = text.main->global_block().op(0);
  EXPECT_EQ(conv.attr<int>("contextStart"), -1);
}

TEST(Nets, ImgConvGroupPutsTheActivationBehindTheNorm) {
  const FreshPrograms fresh;
  layers::img_conv_group(image(), {.conv_num_filter = {4, 4},
                                   .pool_size = 2,
                                   .conv_act = "relu",
                                   .conv_with_batchnorm = {true},
                                   .conv_batchnorm_drop_rate = {0.3, 0},
                                   .pool_stride = 2});
  EXPECT_EQ(types_of(fresh.main->global_block()),
            "conv2d elementwise_add batch_norm relu dropout "
            "conv2d elementwise_add batch_norm relu pool2d");
  EXPECT_THAT(error_of([&] {
                layers::img_conv_group(layers::data("y", {3, 8, 8}),
                                       {.conv_num_filter = {4, 4}, .conv_padding = {1, 1, 1}});
              }),
              HasSubstr("conv_padding has 3 entries for 2"));
}

}  // namespace
}  // namespace trireme
