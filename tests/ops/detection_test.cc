// Known values and wrong uses of ops of detectors.
#include <cmath>

#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using Sizes = std::vector<float>;
using Ints = std::vector<int32_t>;

Tensor zeros(const Shape& shape) {
  return floats(shape, std::vector<float>(static_cast<size_t>(shape.count())));
}

Tensor in_sequences(Tensor rows, std::vector<int64_t> ends) {
  rows.set_lod({std::move(ends)});
  return rows;
}

Tensor whole_numbers(const Shape& shape, const std::vector<int64_t>& values) {
  return cast(longs(shape, values), DType::int32);
}

TEST(PriorBox, SquaresAndRatiosAroundAPlace) {
  const Tensors out =
      run_op({.type = "prior_box",
              .inputs = {{"Input", {zeros({1, 1, 1, 1})}}, {"Image", {zeros({1, 1, 8, 8})}}},
              .attrs = {{"min_sizes", Sizes{2}},
                        {"max_sizes", Sizes{8}},
                        {"aspect_ratios", Sizes{4}},
                        {"flip", false}}});
  EXPECT_THAT(numbers(out.at("Boxes")[0]),
              ElementsAre(.375, .375, .625, .625, .25, .4375, .75, .5625, .25, .25, .75, .75));
  EXPECT_THAT(numbers(out.at("Variances")[0]).size(), 12);
}

TEST(DensityPriorBox, ASquareOfBoxes) {
  const Tensor out =
      run_op("density_prior_box", {{"Input", zeros({1, 1, 1, 1})}, {"Image", zeros({1, 1, 8, 8})}},
             {{"fixed_sizes", Sizes{2}}, {"fixed_ratios", Sizes{1}}, {"densities", Ints{2}}});
  EXPECT_THAT(numbers(out), ElementsAre(.125, .125, .375, .375, .625, .125, .875, .375, .125, .625,
                                        .375, .875, .625, .625, .875, .875));
}

TEST(AnchorGenerator, AnchorsInPixels) {
  const Tensor out = run_op("anchor_generator", {{"Input", zeros({1, 1, 1, 2})}},
                            {{"anchor_sizes", Sizes{16}}, {"aspect_ratios", Sizes{1}}});
  EXPECT_THAT(numbers(out), ElementsAre(0, 0, 15, 15, 16, 0, 31, 15));
}

TEST(IouSimilarity, SharedByAll) {
  const Tensor x = floats({1, 4}, {0, 0, 1, 1}), y = floats({2, 4}, {0, 0, 1, .5, 2, 2, 3, 3});
  EXPECT_THAT(numbers(run_op("iou_similarity", {{"X", x}, {"Y", y}})), ElementsAre(.5, 0));
  EXPECT_THAT(numbers(run_op("iou_similarity", {{"X", x}, {"Y", x}}, {{"box_normalized", false}})),
              ElementsAre(1));
}

TEST(BoxCoder, ThereAndBack) {
  const Tensor prior = floats({1, 4}, {0, 0, 2, 2}), box = floats({1, 4}, {1, 0, 3, 2});
  const Tensor code = run_op("box_coder", {{"PriorBox", prior}, {"TargetBox", box}},
                             {{"variance", Sizes{.5, .5, .5, .5}}});
  EXPECT_THAT(numbers(code), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(numbers(run_op("box_coder", {{"PriorBox", prior}, {"TargetBox", code}},
                             {{"variance", Sizes{.5, .5, .5, .5}},
                              {"code_type", std::string("decode_center_size")}})),
              ElementsAre(1, 0, 3, 2));
}

TEST(BoxCoder, DecodedRowsBelongToTheImagesOfTheirPriors) {
  const Tensor priors = in_sequences(floats({2, 4}, {0, 0, 2, 2, 1, 1, 3, 3}), {0, 1, 2});
  const Tensor boxes = run_op("box_coder", {{"PriorBox", priors}, {"TargetBox", zeros({2, 3, 4})}},
                              {{"code_type", std::string("decode_center_size")}, {"axis", 1}});
  EXPECT_EQ(boxes.lod(), (Lod{{0, 1, 2}}));
}

TEST(BoxClip, CutsToTheImage) {
  EXPECT_THAT(
      numbers(run_op("box_clip", {{"Input", in_sequences(floats({1, 4}, {-1, 2, 30, 40}), {0, 1})},
                                  {"ImInfo", floats({1, 3}, {20, 40, 2})}})),
      ElementsAre(0, 2, 19, 9));
}

TEST(YoloBox, AMiddlingAnswerIsTheAnchorInTheMiddle) {
  const Tensors out = run_op(
      {.type = "yolo_box",
       .inputs = {{"X", {zeros({1, 6, 1, 1})}}, {"ImgSize", {whole_numbers({1, 2}, {32, 64})}}},
       .attrs = {{"class_num", 1}, {"anchors", Ints{16, 8}}}});
  EXPECT_THAT(numbers(out.at("Boxes")[0]), ElementsAre(16, 12, 48, 20));
  EXPECT_THAT(numbers(out.at("Scores")[0]), ElementsAre(.25));
}

TEST(BipartiteMatch, NearestFirst) {
  const Tensor distances = floats({2, 3}, {.9f, .8f, .1f, .7f, .6f, .5f});
  const Tensors out = run_op({.type = "bipartite_match", .inputs = {{"DistMat", {distances}}}});
  EXPECT_THAT(numbers(out.at("ColToRowMatchIndices")[0]), ElementsAre(0, 1, -1));
  const Tensors all = run_op({.type = "bipartite_match",
                              .inputs = {{"DistMat", {distances}}},
                              .attrs = {{"match_type", std::string("per_prediction")}}});
  EXPECT_THAT(numbers(all.at("ColToRowMatchIndices")[0]), ElementsAre(0, 1, 1));
}

TEST(TargetAssign, RowsOfMatchesAndNegatives) {
  const Tensors out =
      run_op({.type = "target_assign",
              .inputs = {{"X", {in_sequences(floats({2, 1, 1}, {4, 5}), {0, 2})}},
                         {"MatchIndices", {whole_numbers({1, 3}, {1, -1, -1})}},
                         {"NegIndices", {in_sequences(whole_numbers({1, 1}, {2}), {0, 1})}}},
              .attrs = {{"mismatch_value", 9}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(5, 9, 9));
  EXPECT_THAT(numbers(out.at("OutWeight")[0]), ElementsAre(1, 0, 1));
}

TEST(MineHardExamples, LargestLossesOfTheUnmatched) {
  const Tensors out = run_op({.type = "mine_hard_examples",
                              .inputs = {{"ClsLoss", {floats({1, 4}, {.9f, .2f, .8f, .7f})}},
                                         {"MatchIndices", {whole_numbers({1, 4}, {0, -1, -1, -1})}},
                                         {"MatchDist", {floats({1, 4}, {.9f, .1f, .1f, .6f})}}}});
  EXPECT_THAT(numbers(out.at("NegIndices")[0]), ElementsAre(2));
  EXPECT_THAT(numbers(out.at("UpdatedMatchIndices")[0]), ElementsAre(0, -1, -1, -1));
}

const Attrs kNms = {{"score_threshold", .1f}, {"nms_top_k", 9}, {"keep_top_k", 9}};

TEST(MulticlassNms, BoxesThatNoBetterOneCovers) {
  const Tensor boxes = floats({1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, .9f, 2, 2, 3, 3});
  const Tensor scores = floats({1, 2, 3}, {.9f, .9f, .9f, .5f, .75f, .05f});
  EXPECT_THAT(numbers(run_op("multiclass_nms", {{"BBoxes", boxes}, {"Scores", scores}}, kNms)),
              ElementsAre(1, .75, 0, 0, 1, .9f));
  const Tensors second = run_op({.type = "multiclass_nms2",
                                 .inputs = {{"BBoxes", {boxes}}, {"Scores", {scores}}},
                                 .attrs = {{"score_threshold", .1f},
                                           {"nms_top_k", 9},
                                           {"keep_top_k", 1},
                                           {"background_label", -1}}});
  EXPECT_THAT(numbers(second.at("Out")[0]), ElementsAre(0, .9f, 0, 0, 1, 1));
  EXPECT_THAT(numbers(second.at("Index")[0]), ElementsAre(0));
}

TEST(MulticlassNms, ASingleNumberSaysThatNothingWasFound) {
  const Tensor out =
      run_op("multiclass_nms", {{"BBoxes", zeros({2, 1, 4})}, {"Scores", zeros({2, 2, 1})}}, kNms);
  EXPECT_THAT(numbers(out), ElementsAre(-1));
  EXPECT_EQ(out.lod(), (Lod{{0, 1}}));
}

TEST(GenerateProposals, DecodesCutsAndChooses) {
  const Tensors out =
      run_op({.type = "generate_proposals",
              .inputs = {{"Scores", {floats({1, 2, 1, 1}, {.5f, .75f})}},
                         {"BboxDeltas", {zeros({1, 8, 1, 1})}},
                         {"ImInfo", {floats({1, 3}, {10, 10, 1})}},
                         {"Anchors", {floats({1, 1, 2, 4}, {0, 0, 9, 9, 0, 0, 19, 8})}},
                         {"Variances", {zeros({1, 1, 2, 4})}}},
              .attrs = {{"pre_nms_topN", 6},
                        {"post_nms_topN", 3},
                        {"nms_thresh", .5f},
                        {"min_size", 1.f},
                        {"eta", 1.f}}});
  EXPECT_THAT(numbers(out.at("RpnRois")[0]), ElementsAre(0, 0, 9, 8));
  EXPECT_THAT(numbers(out.at("RpnRoiProbs")[0]), ElementsAre(.75));
}

TEST(WrongUse, Detectors) {
  const Tensor line = doubles({3}, {1, 2, 3});
  expect_refused({
      spoiled("prior_box", {}, {{"max_sizes", Sizes{1}}}, "max_sizes[0] is 1"),
      spoiled("density_prior_box", {}, {{"densities", Ints{}}}, "densities []"),
      spoiled("anchor_generator", {}, {{"stride", Sizes{1}}}, "stride is [1]"),
      spoiled("iou_similarity", {{"Y", {line}}}, {}, "Y has shape [3]"),
      spoiled("box_coder", {{"TargetBox", {line}}}, {}, "TargetBox has shape [3]"),
      spoiled("box_clip", {{"ImInfo", {line}}}, {}, "ImInfo [3]"),
      spoiled("yolo_box", {}, {{"class_num", 3}}, "3 classes"),
      spoiled("bipartite_match", {{"DistMat", {line}}}, {}, "DistMat has shape [3]"),
      spoiled("target_assign", {{"X", {line}}}, {}, "X has shape [3]"),
      spoiled("mine_hard_examples", {{"ClsLoss", {line}}}, {}, "ClsLoss has shape [3]"),
      spoiled("multiclass_nms", {{"BBoxes", {line}}}, {}, "BBoxes has shape [3]"),
      spoiled("multiclass_nms2", {{"Scores", {line}}}, {}, "Scores [3]"),
      spoiled("generate_proposals", {{"ImInfo", {line}}}, {}, "ImInfo [3]"),
  });
}

}  // namespace
}  // namespace trireme::testing
