// The ops, names and parameters of layers over label sequences, and of those that call back.
#include "layers/decode.h"

#include <gmock/gmock.h>

#include "layers/host.h"
#include "layers/nn.h"
#include "layers/sequence.h"
#include "tests/layers/build.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

Var& floats(const std::string& name, std::vector<int64_t> shape, int lod_level = 0) {
  return layers::data(name, std::move(shape), {.lod_level = lod_level});
}
Var& ids(const std::string& name, std::vector<int64_t> shape, int lod_level = 0) {
  return layers::data(name, std::move(shape), {.dtype = DType::int64, .lod_level = lod_level});
}

TEST(WarpCtcLayer, IsOneOpOnInt32Labels) {
  const FreshPrograms fresh;
  Var& loss = layers::warpctc(floats("x", {5}, 1), ids("label", {1}, 1), {.blank = 4});
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "cast(label) -> cast_0.tmp_0; "
            "warpctc(cast_0.tmp_0, x) -> warpctc_0.tmp_0, warpctc_0.tmp_1");
  EXPECT_EQ(loss.shape(), Shape({-1, 1}));
}

TEST(CtcGreedyDecoderLayer, TakesTheTopClassThenAligns) {
  const FreshPrograms fresh;
  layers::ctc_greedy_decoder(floats("x", {5}, 1), 0);
  EXPECT_EQ(types_of(fresh.main->global_block()), "top_k ctc_align");
  const FreshPrograms padded;
  const layers::CtcLabels out = layers::ctc_greedy_decoder(
      floats("x", {6, 5}), 0, {.input_length = &ids("length", {1}), .padding_value = 7});
  EXPECT_EQ(types_of(padded.main->global_block()), "top_k squeeze2 ctc_align");
  ASSERT_NE(out.lengths, nullptr);
  EXPECT_TRUE(out.labels.stop_gradient());
}

TEST(EditDistanceLayer, IgnoredTokensAreErasedFirst) {
  const FreshPrograms fresh;
  layers::edit_distance(ids("a", {1}, 1), ids("b", {1}, 1), {.ignored_tokens = {0, 1}});
  EXPECT_EQ(types_of(fresh.main->global_block()), "sequence_erase sequence_erase edit_distance");
}

TEST(ChunkEvalLayer, GivesSixNumbers) {
  const FreshPrograms fresh;
  const layers::ChunkEval out =
      layers::chunk_eval(ids("a", {1}, 1), ids("b", {1}, 1), {.num_chunk_types = 3});
  EXPECT_EQ(out.precision.name(), "chunk_eval_0.tmp_0");
  EXPECT_EQ(out.num_correct_chunks.name(), "chunk_eval_0.tmp_5");
  EXPECT_EQ(out.num_correct_chunks.dtype(), DType::int64);
}

TEST(BeamSearchLayer, SelectsIdsAndScores) {
  const FreshPrograms fresh;
  Var& topk_ids = ids("ids", {4}, 2);
  const layers::BeamSearchStep step =
      layers::beam_search(ids("pre", {1}, 2), floats("pre_scores", {1}, 2), &topk_ids,
                          floats("scores", {4}, 2), {.beam_size = 4, .end_id = 10});
  EXPECT_EQ(step.selected_ids.shape(), Shape({-1, 1}));
  EXPECT_EQ(step.selected_ids.dtype(), DType::int64);
  EXPECT_EQ(step.selected_ids.lod_level(), 2);
  EXPECT_THAT(error_of([&] {
                layers::beam_search(ids("p2", {1}, 2), floats("s2", {1}, 2), &topk_ids,
                                    floats("scores2", {3}, 2), {.beam_size = 4});
              }),
              HasSubstr("scores has shape [-1, 3] and ids [-1, 4]"));
}

TEST(SampledSoftmaxLayer, IsFourOps) {
  const FreshPrograms fresh;
  Var& loss = layers::sampled_softmax_with_cross_entropy(floats("x", {100}), ids("label", {1}),
                                                         {.num_samples = 25});
  EXPECT_EQ(types_of(fresh.main->global_block()),
            "sample_logits one_hot softmax_with_cross_entropy scale");
  EXPECT_EQ(loss.shape(), Shape({-1, 1}));
}

TEST(LstmLayer, HasOneFlatWeight) {
  for (const Style style : {Style::fluid_1_8, Style::static_2_4}) {
    const StyleGuard as(style);
    const FreshPrograms fresh;
    const layers::LstmStates out =
        layers::lstm(floats("x", {20, 16}), floats("h", {20, 8}), floats("c", {20, 8}),
                     {.max_len = 12, .hidden_size = 8, .num_layers = 2, .is_bidirec = true});
    // Two directions of 16 + 8 + 2, then of 16 + 8 + 2, times four gates of 8.
    EXPECT_EQ(fresh.main->global_block().var("cudnn_lstm_0.w_0").shape(), Shape({2 * 2 * 32 * 26}));
    EXPECT_EQ(out.out.shape(), Shape({-1, 20, 16}));
    EXPECT_EQ(out.last_h.shape(), Shape({4, 20, 8}));
  }
}

TEST(Im2SequenceLayer, MakesSequences) {
  const FreshPrograms fresh;
  Var& out =
      layers::im2sequence(floats("x", {3, 32, 32}), {.filter_size = {2, 4}, .padding = {1, 0}});
  EXPECT_EQ(out.shape(), Shape({-1, 24}));
  EXPECT_EQ(out.lod_level(), 1);
  EXPECT_EQ(fresh.main->global_block().op(0).attr<std::vector<int32_t>>("paddings"),
            (std::vector<int32_t>{1, 0, 1, 0}));
}

TEST(InplaceAbnLayer, WritesOverItsInput) {
  const FreshPrograms fresh;
  Var& x = layers::fc(floats("x", {3, 8, 8}), {.size = 4});
  Var& out = layers::inplace_abn(x, {.norm = {.act = "elu"}, .act_alpha = 0.5});
  EXPECT_EQ(&out, &x);
  EXPECT_EQ(fresh.main->global_block().ops().back()->type(), "inplace_abn");
  EXPECT_THAT(error_of([&] { layers::inplace_abn(x, {.norm = {.act = "relu"}}); }),
              HasSubstr("act is \"relu\", which cannot be undone"));
}

TEST(DataNormLayer, KeepsThreeStatisticsUnderItsName) {
  const FreshPrograms fresh;
  layers::data_norm(floats("x", {5}), {.name = "click", .enable_scale_and_shift = true});
  EXPECT_EQ(fresh.main->global_block().op(0).input("BatchSquareSum")[0], "click.batch_square_sum");
  EXPECT_EQ(types_of(fresh.startup->global_block()),
            "fill_constant fill_constant fill_constant fill_constant fill_constant");
  EXPECT_THAT(error_of([] { layers::data_norm(layers::data("y", {-1})); }),
              HasSubstr("number of columns must be known"));
}

TEST(PrintLayer, PassesItsInputOn) {
  const FreshPrograms fresh;
  Var& out = layers::print(floats("x", {5}), {.message = "here", .print_phase = "forward"});
  EXPECT_EQ(out.shape(), Shape({-1, 5}));
  EXPECT_EQ(fresh.main->global_block().op(0).attr<std::string>("print_phase"), "FORWARD");
}

TEST(PyFuncLayer, OnlyItsOwnVariablesCanBeSkipped) {
  const FreshPrograms fresh;
  Var& x = floats("x", {5});
  Var& out = fresh.main->global_block().create_var({.name = "out", .shape = {-1, 5}});
  EXPECT_EQ(layers::py_func(0, x, out, {.skip_vars_in_backward_input = {"x"}})[0].name(), "out");
  EXPECT_THAT(error_of([&] { layers::py_func(0, x, out, {.skip_vars_in_backward_input = {"z"}}); }),
              HasSubstr("z is neither an input nor an output"));
}

}  // namespace
}  // namespace trireme
