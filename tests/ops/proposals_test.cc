// Known values and wrong uses of ops that say what detectors learn and choose.
#include <cmath>

#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ProposalInts = std::vector<int32_t>;

Tensor of_images(Tensor rows, std::vector<int64_t> ends) {
  rows.set_lod({std::move(ends)});
  return rows;
}

Tensor int32s(const Shape& shape, const std::vector<int64_t>& values) {
  return cast(longs(shape, values), DType::int32);
}

// One image of 20 x 20 with a box, and three anchors: on it, beside it, far away.
const Tensor kAnchors = floats({3, 4}, {0, 0, 9, 9, 0, 0, 9, 4, 10, 10, 19, 19});
const Tensor kBox = of_images(floats({1, 4}, {0, 0, 9, 9}), {0, 1});
const Tensor kNoCrowd = of_images(int32s({1, 1}, {0}), {0, 1});
const Tensor kInfo = floats({1, 3}, {20, 20, 1});

TEST(RpnTargetAssign, ObjectsThenBackground) {
  const Tensors out = run_op({.type = "rpn_target_assign",
                              .inputs = {{"Anchor", {kAnchors}},
                                         {"GtBoxes", {kBox}},
                                         {"IsCrowd", {kNoCrowd}},
                                         {"ImInfo", {kInfo}}},
                              .attrs = {{"rpn_straddle_thresh", 0.0f}, {"use_random", false}}});
  EXPECT_THAT(numbers(out.at("LocationIndex")[0]), ElementsAre(0));
  EXPECT_THAT(numbers(out.at("ScoreIndex")[0]), ElementsAre(0, 2));
  EXPECT_THAT(numbers(out.at("TargetLabel")[0]), ElementsAre(1, 0));
  EXPECT_THAT(numbers(out.at("TargetBBox")[0]), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(numbers(out.at("BBoxInsideWeight")[0]), ElementsAre(1, 1, 1, 1));
}

TEST(RpnTargetAssign, AtRandomAsManyAsAreWanted) {
  const Tensors out = run_op({.type = "rpn_target_assign",
                              .inputs = {{"Anchor", {kAnchors}},
                                         {"GtBoxes", {kBox}},
                                         {"IsCrowd", {kNoCrowd}},
                                         {"ImInfo", {kInfo}}},
                              .attrs = {{"rpn_straddle_thresh", -1.0f},
                                        {"rpn_batch_size_per_im", 2},
                                        {"rpn_fg_fraction", 0.5f},
                                        {"rpn_negative_overlap", 0.6f}}});
  const std::vector<double> scored = numbers(out.at("ScoreIndex")[0]);
  ASSERT_EQ(scored.size(), 2u);
  EXPECT_EQ(scored[0], 0);
  EXPECT_TRUE(scored[1] == 1 || scored[1] == 2);
}

TEST(RpnTargetAssign, TheSeedDecidesTheChoice) {
  std::vector<float> corners;
  for (int i = 0; i < 64; ++i) {
    for (const int corner : {12, 12, 19, 19}) corners.push_back(static_cast<float>(corner));
  }
  const auto chosen = [&](int seed) {
    const Tensors out = run_op(
        {.type = "rpn_target_assign",
         .inputs = {{"Anchor", {floats({64, 4}, corners)}},
                    {"GtBoxes", {kBox}},
                    {"IsCrowd", {kNoCrowd}},
                    {"ImInfo", {kInfo}}},
         .attrs = {{"rpn_straddle_thresh", -1.0f}, {"rpn_batch_size_per_im", 8}, {"seed", seed}}});
    return numbers(out.at("ScoreIndex")[0]);
  };
  EXPECT_EQ(chosen(5), chosen(5));
  EXPECT_NE(chosen(5), chosen(6));
}

TEST(RetinanetTargetAssign, ClassesOfAnchors) {
  const Tensors out = run_op({.type = "retinanet_target_assign",
                              .inputs = {{"Anchor", {kAnchors}},
                                         {"GtBoxes", {kBox}},
                                         {"GtLabels", {of_images(int32s({1, 1}, {7}), {0, 1})}},
                                         {"IsCrowd", {kNoCrowd}},
                                         {"ImInfo", {kInfo}}}});
  EXPECT_THAT(numbers(out.at("TargetLabel")[0]), ElementsAre(7, 7, 0));
  EXPECT_THAT(numbers(out.at("ForegroundNumber")[0]), ElementsAre(3));
}

const Attrs kLabels = {
    {"batch_size_per_im", 4}, {"fg_fraction", 0.5f},
    {"fg_thresh", 0.5f},      {"bg_thresh_hi", 0.5f},
    {"bg_thresh_lo", 0.0f},   {"bbox_reg_weights", std::vector<float>{1, 1, 1, 1}},
    {"class_nums", 2},        {"use_random", false}};

TEST(GenerateProposalLabels, TrueBoxesAreProposedToo) {
  const Tensors out =
      run_op({.type = "generate_proposal_labels",
              .inputs = {{"RpnRois", {of_images(floats({1, 4}, {10, 10, 19, 19}), {0, 1})}},
                         {"GtClasses", {of_images(int32s({1, 1}, {1}), {0, 1})}},
                         {"IsCrowd", {kNoCrowd}},
                         {"GtBoxes", {kBox}},
                         {"ImInfo", {kInfo}}},
              .attrs = kLabels});
  EXPECT_THAT(numbers(out.at("Rois")[0]), ElementsAre(0, 0, 9, 9, 10, 10, 19, 19));
  EXPECT_THAT(numbers(out.at("LabelsInt32")[0]), ElementsAre(1, 0));
  EXPECT_THAT(numbers(out.at("BboxInsideWeights")[0]),
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(GenerateMaskLabels, ASquareFillsItsHalf) {
  Tensor points = floats({4, 2}, {0, 0, 4, 0, 4, 8, 0, 8});
  points.set_lod({{0, 1}, {0, 1}, {0, 4}});
  const Tensors out =
      run_op({.type = "generate_mask_labels",
              .inputs = {{"ImInfo", {kInfo}},
                         {"GtClasses", {of_images(int32s({1, 1}, {1}), {0, 1})}},
                         {"IsCrowd", {kNoCrowd}},
                         {"GtSegms", {points}},
                         {"Rois", {of_images(floats({1, 4}, {0, 0, 8, 8}), {0, 1})}},
                         {"LabelsInt32", {of_images(int32s({1, 1}, {1}), {0, 1})}}},
              .attrs = {{"num_classes", 2}, {"resolution", 2}}});
  EXPECT_THAT(numbers(out.at("RoiHasMaskInt32")[0]), ElementsAre(0));
  EXPECT_THAT(numbers(out.at("MaskInt32")[0]), ElementsAre(-1, -1, -1, -1, 1, 0, 1, 0));
}

TEST(CollectFpnProposals, TheBestOfAllByImage) {
  const Tensor first = of_images(floats({2, 4}, {0, 0, 1, 1, 0, 0, 2, 2}), {0, 1, 2});
  const Tensor second = of_images(floats({1, 4}, {0, 0, 3, 3}), {0, 1, 1});
  const Tensors out = run_op(
      {.type = "collect_fpn_proposals",
       .inputs = {{"MultiLevelRois", {first, second}},
                  {"MultiLevelScores", {floats({2, 1}, {.25f, .5f}), floats({1, 1}, {.75f})}}},
       .attrs = {{"post_nms_topN", 2}}});
  EXPECT_THAT(numbers(out.at("FpnRois")[0]), ElementsAre(0, 0, 3, 3, 0, 0, 2, 2));
  EXPECT_EQ(out.at("FpnRois")[0].lod(), (Lod{{0, 1, 2}}));
}

TEST(DistributeFpnProposals, LevelsBySize) {
  const Tensor rois = of_images(floats({3, 4}, {0, 0, 99, 99, 0, 0, 9, 9, 0, 0, 49, 49}), {0, 3});
  const Tensors out = run_op(
      {.type = "distribute_fpn_proposals",
       .inputs = {{"FpnRois", {rois}}},
       .attrs = {{"min_level", 2}, {"max_level", 3}, {"refer_level", 3}, {"refer_scale", 50}},
       .out_counts = {{"MultiFpnRois", 2}}});
  EXPECT_THAT(numbers(out.at("MultiFpnRois")[0]), ElementsAre(0, 0, 9, 9));
  EXPECT_THAT(numbers(out.at("RestoreIndex")[0]), ElementsAre(1, 0, 2));
}

TEST(BoxDecoderAndAssign, TheLikeliestClassButTheBackground) {
  const Tensors out =
      run_op({.type = "box_decoder_and_assign",
              .inputs = {{"PriorBox", {floats({1, 4}, {0, 0, 9, 9})}},
                         {"TargetBox", {floats({1, 8}, {0, 0, 0, 0, .5f, 0, 0, 0})}},
                         {"BoxScore", {floats({1, 2}, {.9f, .1f})}}}});
  EXPECT_THAT(numbers(out.at("DecodeBox")[0]), ElementsAre(0, 0, 9, 9, 5, 0, 14, 9));
  EXPECT_THAT(numbers(out.at("OutputAssignBox")[0]), ElementsAre(5, 0, 14, 9));
}

const Attrs kBest = {{"score_threshold", .1f}, {"nms_top_k", 9}, {"keep_top_k", 9}};

TEST(MatrixNms, ScoresDecayWhereCovered) {
  Attrs attrs = kBest;
  attrs["background_label"] = -1;
  attrs["post_threshold"] = 0.0f;
  const Tensors out =
      run_op({.type = "matrix_nms",
              .inputs = {{"BBoxes", {floats({1, 2, 4}, {0, 0, 1, 1, 0, 0, 1, .75f})}},
                         {"Scores", {floats({1, 1, 2}, {.5f, 1})}}},
              .attrs = attrs});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(0, 1, 0, 0, 1, .75, 0, .125, 0, 0, 1, 1));
  EXPECT_THAT(numbers(out.at("Index")[0]), ElementsAre(1, 0));
}

TEST(LocalityAwareNms, NeighboursAreMerged) {
  Attrs attrs = kBest;
  attrs["background_label"] = -1;
  const Tensor boxes = floats({1, 3, 4}, {0, 0, 4, 4, 0, 0, 4, 3, 8, 8, 9, 9});
  EXPECT_THAT(
      numbers(run_op("locality_aware_nms",
                     {{"BBoxes", boxes}, {"Scores", floats({1, 1, 3}, {.5f, .5f, .75f})}}, attrs)),
      ElementsAre(0, 1, 0, 0, 4, 3.5, 0, .75, 8, 8, 9, 9));
  // The same as polygons.
  const Tensor quads = floats({1, 2, 8}, {0, 0, 4, 0, 4, 4, 0, 4, 0, 0, 4, 0, 4, 3, 0, 3});
  EXPECT_THAT(
      numbers(run_op("locality_aware_nms",
                     {{"BBoxes", quads}, {"Scores", floats({1, 1, 2}, {.5f, .5f})}}, attrs)),
      ElementsAre(0, 1, 0, 0, 4, 0, 4, 3.5, 0, 3.5));
}

TEST(LocalityAwareNms, ASingleNumberSaysThatNothingWasFound) {
  const Tensor none = floats({1, 1, 1}, {0});
  EXPECT_THAT(
      numbers(run_op("locality_aware_nms",
                     {{"BBoxes", floats({1, 1, 4}, {0, 0, 1, 1})}, {"Scores", none}}, kBest)),
      ElementsAre(-1));
}

TEST(RetinanetDetectionOutput, DecodesAndChooses) {
  Attrs attrs = kBest;
  attrs["nms_threshold"] = .5f;
  const Tensors out =
      run_op({.type = "retinanet_detection_output",
              .inputs = {{"BBoxes", {floats({1, 2, 4}, {.5f, 0, 0, 0, 0, 0, 0, 0})}},
                         {"Scores", {floats({1, 2, 2}, {0, .5f, 0, .25f})}},
                         {"Anchors", {floats({2, 4}, {0, 0, 9, 9, 5, 0, 14, 9})}},
                         {"ImInfo", {floats({1, 3}, {20, 12, 1})}}},
              .attrs = attrs});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(2, .5, 5, 0, 11, 9));
}

TEST(Yolov3Loss, NothingSaidAndNothingThere) {
  // One cell, one anchor, one class; every logit is 0.
  const Attrs attrs = {{"class_num", 1},
                       {"anchors", ProposalInts{8, 8}},
                       {"anchor_mask", ProposalInts{0}},
                       {"use_label_smooth", false}};
  const Tensor x = floats({1, 6, 1, 1}, {0, 0, 0, 0, 0, 0}), label = int32s({1, 1}, {0});
  const auto loss = [&](const std::vector<float>& box) {
    return numbers(run_op("yolov3_loss",
                          {{"X", x}, {"GTBox", floats({1, 1, 4}, box)}, {"GTLabel", label}},
                          attrs))[0];
  };
  EXPECT_NEAR(loss({0, 0, 0, 0}), std::log(2.0), 1e-6);
  // A box in the middle as large as the anchor: two for its place, one each for presence and class.
  EXPECT_NEAR(loss({.5f, .5f, .25f, .25f}), std::log(2.0) * (2 * (2 - .0625) + 2), 1e-5);
}

TEST(SigmoidFocalLoss, WeighedByHowWrong) {
  const auto loss = [](int64_t label) {
    return numbers(run_op("sigmoid_focal_loss", {{"X", floats({1, 2}, {0, 0})},
                                                 {"Label", int32s({1, 1}, {label})},
                                                 {"FgNum", int32s({1}, {2})}}));
  };
  const double each = std::log(2.0) / 4 / 2;
  EXPECT_NEAR(loss(1)[0], .25 * each, 1e-7);
  EXPECT_NEAR(loss(1)[1], .75 * each, 1e-7);
  EXPECT_NEAR(loss(0)[0], .75 * each, 1e-7);
  EXPECT_THAT(loss(-1), ElementsAre(0, 0));
}

TEST(CenterLoss, CentersFollow) {
  const Tensors out = run_op({.type = "center_loss",
                              .inputs = {{"X", {floats({2, 1}, {3, 1})}},
                                         {"Label", {longs({2, 1}, {1, 1})}},
                                         {"Centers", {floats({2, 1}, {7, 0})}},
                                         {"CenterUpdateRate", {floats({1}, {.75f})}}}});
  EXPECT_THAT(numbers(out.at("Loss")[0]), ElementsAre(4.5, .5));
  EXPECT_THAT(numbers(out.at("CentersOut")[0]), ElementsAre(7, 1));
}

TEST(MeanIou, OfTheClassesThatAppear) {
  const Tensors out = run_op({.type = "mean_iou",
                              .inputs = {{"Predictions", {int32s({4}, {0, 0, 1, 1})}},
                                         {"Labels", {int32s({4}, {0, 1, 1, 1})}}},
                              .attrs = {{"num_classes", 3}}});
  EXPECT_NEAR(numbers(out.at("OutMeanIou")[0])[0], (1.0 / 2 + 2.0 / 3) / 2, 1e-6);
  EXPECT_THAT(numbers(out.at("OutWrong")[0]), ElementsAre(1, 1, 0));
  EXPECT_THAT(numbers(out.at("OutCorrect")[0]), ElementsAre(1, 2, 0));
}

TEST(Cvm, LogarithmsOfShowsAndClicks) {
  const Tensor x = floats({1, 3}, {1, 3, 5}), clicks = floats({1, 2}, {1, 3});
  const std::vector<double> kept = numbers(run_op("cvm", {{"X", x}, {"CVM", clicks}}));
  EXPECT_NEAR(kept[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(kept[1], std::log(2.0), 1e-6);
  EXPECT_EQ(kept[2], 5);
  EXPECT_THAT(numbers(run_op("cvm", {{"X", x}, {"CVM", clicks}}, {{"use_cvm", false}})),
              ElementsAre(5));
}

TEST(Hash, IsXxh64) {
  // XXH64 of eight bytes 0, seeds 0 and 1, below 2^62: as its reference implementation has it.
  const Tensor out =
      run_op("hash", {{"X", longs({1, 1}, {0})}}, {{"num_hash", 2}, {"mod_by", int64_t{1} << 62}});
  const auto* found = out.data<int64_t>();
  EXPECT_EQ(static_cast<uint64_t>(found[0]), 0x34C96ACDCADB1BBB % (uint64_t{1} << 62));
  EXPECT_NE(found[0], found[1]);
}

TEST(FilterByInstag, RowsWithAWantedTag) {
  const Tensors out =
      run_op({.type = "filter_by_instag",
              .inputs = {{"Ins", {floats({3, 1}, {5, 6, 7})}},
                         {"Ins_tag", {of_images(longs({4, 1}, {1, 2, 3, 2}), {0, 1, 3, 4})}},
                         {"Filter_tag", {longs({1}, {2})}}},
              .attrs = {{"is_lod", false}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(6, 7));
  EXPECT_THAT(numbers(out.at("LossWeight")[0]), ElementsAre(1, 1));
  EXPECT_THAT(numbers(out.at("IndexMap")[0]), ElementsAre(0, 1, 1, 1, 2, 1));
}

TEST(AddPositionEncoding, WavesOfPlaces) {
  const Tensor out = run_op("add_position_encoding", {{"X", floats({1, 2, 2}, {1, 1, 1, 1})}});
  const std::vector<double> found = numbers(out);
  EXPECT_NEAR(found[0], 1, 1e-6);
  EXPECT_NEAR(found[1], 2, 1e-6);
  EXPECT_NEAR(found[2], 1 + std::sin(1e-4), 1e-6);
  EXPECT_NEAR(found[3], 1 + std::cos(1e-4), 1e-6);
}

TEST(SequenceScatter, UpdatesOfEachRow) {
  const Tensor ids = of_images(longs({3, 1}, {0, 0, 1}), {0, 2, 3});
  EXPECT_THAT(numbers(run_op("sequence_scatter", {{"X", floats({2, 2}, {0, 0, 0, 0})},
                                                  {"Ids", ids},
                                                  {"Updates", floats({3, 1}, {1, 2, 3})}})),
              ElementsAre(3, 0, 0, 3));
}

TEST(Randperm, EveryNumberOnce) {
  std::vector<double> found = numbers(run_op("randperm", {}, {{"n", 20}, {"seed", 3}}));
  EXPECT_FALSE(std::is_sorted(found.begin(), found.end()));
  std::sort(found.begin(), found.end());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], static_cast<double>(i));
}

TEST(Proposals, WrongUsesAreNamed) {
  const Tensor flat = floats({2, 3}, {1, 1, 1, 1, 1, 1}), whole = longs({1, 1}, {1});
  expect_refused({
      spoiled("rpn_target_assign", {{"Anchor", {flat}}}, {}, "Anchor has shape [2, 3]"),
      spoiled("retinanet_target_assign", {{"ImInfo", {whole}}}, {}, "ImInfo has shape [1, 1]"),
      spoiled("generate_proposal_labels", {}, {{"bbox_reg_weights", std::vector<float>{1}}},
              "bbox_reg_weights is [1]"),
      spoiled("generate_mask_labels", {{"Rois", {flat}}}, {}, "Rois has shape [2, 3]"),
      spoiled("collect_fpn_proposals", {{"MultiLevelScores", {whole}}}, {},
              "but 1 MultiLevelScores"),
      spoiled("distribute_fpn_proposals", {}, {{"max_level", 4}}, "levels are from 2 to 4"),
      spoiled("box_decoder_and_assign", {{"PriorBox", {flat}}}, {}, "PriorBox has shape [2, 3]"),
      spoiled("matrix_nms", {{"Scores", {flat}}}, {}, "Scores [2, 3]"),
      spoiled("locality_aware_nms", {{"BBoxes", {floats({2, 5, 5}, std::vector<float>(50))}}}, {},
              "BBoxes has shape [2, 5, 5]"),
      spoiled("retinanet_detection_output", {{"Scores", {flat}}}, {}, "Scores [2, 3]"),
      spoiled("yolov3_loss", {}, {{"anchor_mask", ProposalInts{7}}}, "anchor_mask has 7"),
      spoiled("sigmoid_focal_loss", {{"X", {floats({3}, {1, 1, 1})}}}, {}, "X has shape [3]"),
      spoiled("center_loss", {{"Centers", {flat}}, {"X", {whole}}}, {}, "center_loss"),
      spoiled("mean_iou", {{"Labels", {whole}}}, {}, "Labels [1, 1]"),
      spoiled("cvm", {{"CVM", {flat}}}, {}, "CVM [2, 3]"),
      spoiled("hash", {{"X", {longs({2}, {1, 1})}}}, {}, "X has shape [2]"),
      spoiled("filter_by_instag", {{"Filter_tag", {int32s({1}, {1})}}}, {},
              "Filter_tag holds int32"),
      spoiled("add_position_encoding", {{"X", {floats({1, 1, 3}, {1, 1, 1})}}}, {}, "[1, 1, 3]"),
      spoiled("sequence_scatter", {{"X", {floats({2}, {1, 1})}}}, {}, "X has shape [2]"),
      spoiled("randperm", {}, {{"dtype", 5}}, "dtype is float32"),
  });
}

}  // namespace
}  // namespace trireme::testing
