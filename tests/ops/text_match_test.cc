// What ops that match texts, and ops of trees, give where it is known.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/ops/small.h"
#include "tests/ops/wrong_use.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<int32_t>;

Tensor in_sequences(std::vector<double> values, std::vector<int64_t> offsets, int64_t width = 1) {
  const auto rows = static_cast<int64_t>(values.size()) / width;
  return with_lod(doubles({rows, width}, values), {std::move(offsets)});
}

Tensor lengths(std::vector<int64_t> offsets) {
  return in_sequences(std::vector<double>(static_cast<size_t>(offsets.back()), 0), offsets);
}

Tensor whole(const Shape& shape, const std::vector<int64_t>& values) {
  return cast(longs(shape, values), DType::int32);
}

// ---- match_matrix_tensor

OpCall match_call() {
  return {.type = "match_matrix_tensor",
          .inputs = {{"X", {in_sequences({1, 0, 0, 1, 2, 3}, {0, 2, 3}, 2)}},
                     {"Y", {in_sequences({1, 2, 3, 4}, {0, 1, 2}, 2)}},
                     // The first map is the identity, the second exchanges the columns.
                     {"W", {doubles({2, 2, 2}, {1, 0, 0, 1, 0, 1, 1, 0})}}},
          .attrs = {{"dim_t", 2}}};
}

TEST(MatchMatrixTensor, MultipliesEveryPairOfWords) {
  const Tensors out = run_op(match_call());
  // Text 1: words (1, 0) and (0, 1) with (1, 2); text 2: (2, 3) with (3, 4).
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(1, 2, 2, 1, 18, 17));
  EXPECT_EQ(out.at("Out")[0].shape(), Shape({6, 1}));
  EXPECT_EQ(out.at("Out")[0].lod(), (Lod{{0, 4, 6}}));
  EXPECT_THAT(numbers(out.at("Tmp")[0]), ElementsAre(1, 0, 0, 1, 0, 1, 1, 0, 2, 3, 3, 2));
}

TEST(MatchMatrixTensor, AnEmptyTextMatchesNothing) {
  OpCall call = match_call();
  call.inputs["Y"] = {in_sequences({3, 4}, {0, 0, 1}, 2)};
  const Tensors out = run_op(call);
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(18, 17));
  EXPECT_EQ(out.at("Out")[0].lod(), (Lod{{0, 0, 2}}));
}

// ---- var_conv_2d

OpCall conv_call(int high, int wide, int down, int right) {
  return {.type = "var_conv_2d",
          .inputs = {{"X", {in_sequences({1, 2, 3, 4, 5, 6, 7}, {0, 6, 7})}},
                     {"ROW", {lengths({0, 2, 3})}},
                     {"COLUMN", {lengths({0, 3, 4})}},
                     {"W", {filled(DType::float64, {1, high * wide}, 1)}}},
          .attrs = {{"InputChannel", 1},
                    {"OutputChannel", 1},
                    {"KernelH", high},
                    {"KernelW", wide},
                    {"StrideH", down},
                    {"StrideW", right}}};
}

TEST(VarConv2d, SumsWindowsOfImagesOfTheirOwnSizes) {
  // [[1, 2, 3], [4, 5, 6]] and [[7]].
  const Tensors out = run_op(conv_call(3, 3, 1, 1));
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(12, 21, 16, 12, 21, 16, 7));
  EXPECT_EQ(out.at("Out")[0].lod(), (Lod{{0, 6, 7}}));
}

TEST(VarConv2d, StepsOverRowsAndColumns) {
  const Tensors out = run_op(conv_call(1, 2, 2, 2));
  // A window of two has its second element on the place itself.
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(1, 5, 7));
}

// ---- sequence_topk_avg_pooling

OpCall topk_call(Numbers topks) {
  return {.type = "sequence_topk_avg_pooling",
          // Two channels of [[3, 13, 7], [2, 6, 10]] and [[4, 1, 14], [0, 15, 9]].
          .inputs = {{"X", {in_sequences({3, 13, 7, 2, 6, 10, 4, 1, 14, 0, 15, 9}, {0, 12})}},
                     {"ROW", {lengths({0, 2})}},
                     {"COLUMN", {lengths({0, 3})}}},
          .attrs = {{"topks", topks}, {"channel_num", 2}}};
}

TEST(SequenceTopkAvgPooling, TakesMeansOfTheLargest) {
  const Tensors out = run_op(topk_call({1, 2, 4}));
  EXPECT_THAT(numbers(out.at("Out")[0]),
              ElementsAre(13, 10, 5.75, 14, 9, 4.75, 10, 8, 4.5, 15, 12, 6));
  EXPECT_EQ(out.at("Out")[0].lod(), (Lod{{0, 2}}));
  EXPECT_THAT(numbers(out.at("pos")[0]),
              ElementsAre(1, 2, 0, -1, 2, 0, 1, -1, 2, 1, 0, -1, 1, 2, 0, -1));
}

TEST(SequenceTopkAvgPooling, OfEqualNumbersTheFirstCounts) {
  OpCall call = topk_call({1, 2});
  call.inputs["X"] = {in_sequences(std::vector<double>(12, 5), {0, 12})};
  EXPECT_THAT(numbers(run_op(call).at("pos")[0]), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

// ---- tree_conv

// What each node gives to each other, in the three shares: nodes and filter are ones at one place.
std::vector<double> shares(int levels, int64_t to, int64_t from) {
  std::vector<double> nodes(7, 0);
  nodes[static_cast<size_t>(from - 1)] = 1;
  const std::vector<int64_t> edges = {1, 2, 1, 3, 1, 4, 2, 5, 2, 6, 6, 7, 0, 0};
  const Tensor out =
      run_op({.type = "tree_conv",
              .inputs = {{"NodesVector", {doubles({1, 7, 1}, nodes)}},
                         {"EdgeSet", {whole({1, 7, 2}, edges)}},
                         {"Filter", {doubles({1, 3, 3, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1})}}},
              .attrs = {{"max_depth", levels}}})
          .at("Out")[0];
  const std::vector<double> all = numbers(out);
  return {all.begin() + 3 * (to - 1), all.begin() + 3 * to};
}

TEST(TreeConv, SharesDependOnLevelAndPlaceAmongSiblings) {
  EXPECT_THAT(shares(2, 1, 1), ElementsAre(0, 0, 1));
  EXPECT_THAT(shares(2, 1, 2), ElementsAre(0, 0.5, 0.5));           // the first of three
  EXPECT_THAT(shares(2, 1, 3), ElementsAre(0.25, 0.375, 0.5));      // the second
  EXPECT_THAT(shares(2, 1, 4), ElementsAre(0.5, 0.25, 0.5));        // the last
  EXPECT_THAT(shares(2, 6, 7), ElementsAre(0.25, 0.375, 0.5));      // an only child
  EXPECT_THAT(shares(4, 1, 7), ElementsAre(0.375, 0.46875, 0.25));  // three levels down
  EXPECT_THAT(shares(2, 1, 5), Each(0));                            // not seen
  EXPECT_THAT(shares(4, 3, 1), Each(0));                            // nothing goes down
}

OpCall tree_call(std::vector<int64_t> edges) {
  const auto count = static_cast<int64_t>(edges.size()) / 2;
  return {.type = "tree_conv",
          .inputs = {{"NodesVector", {filled(DType::float64, {1, 4, 1}, 1)}},
                     {"EdgeSet", {whole({1, count, 2}, edges)}},
                     {"Filter", {filled(DType::float64, {1, 3, 1, 1}, 1)}}}};
}

TEST(TreeConv, NodesOutsideTheTreeGiveZeros) {
  EXPECT_THAT(numbers(run_op(tree_call({1, 2, 0, 0})).at("Out")[0]), ElementsAre(2.125, 1, 0, 0));
}

TEST(TreeConv, RefusesWhatIsNoTree) {
  const auto what = [](std::vector<int64_t> edges) {
    return error_of([&] { run_op(tree_call(edges)); });
  };
  EXPECT_THAT(what({1, 3, 2, 3}), HasSubstr("tree 0 of EdgeSet: node 3 has two parents"));
  EXPECT_THAT(what({1, 2, 2, 1}), HasSubstr("node 1 is below itself"));
  EXPECT_THAT(what({1, 5}), HasSubstr("an edge from 1 to 5 with 4 nodes"));
  EXPECT_THAT(what({1, 2, 1, 3, 1, 4, 2, 4}), HasSubstr("4 edges for 4 nodes"));
  EXPECT_THAT(what({1, 1}), HasSubstr("node 1 is below itself"));
}

// ---- tdm_sampler

OpCall sampler_call(Numbers drawn, std::vector<int64_t> leaves, int seed) {
  const auto count = static_cast<int64_t>(leaves.size());
  return {.type = "tdm_sampler",
          .inputs = {{"X", {longs({count, 1}, leaves)}},
                     // Leaf 0 is node 1 itself; leaves 1 and 2 hang below node 2.
                     {"Travel", {whole({3, 2}, {1, 0, 2, 3, 2, 4})}},
                     {"Layer", {whole({5, 1}, {1, 2, 3, 4, 5})}}},
          .attrs = {{"neg_samples_num_list", drawn},
                    {"layer_offset_lod", Numbers{0, 2, 5}},
                    {"seed", seed}},
          .outputs = {"Out", "Labels", "Mask"}};
}

TEST(TdmSampler, NamesTheWayThenOthersOfTheLevel) {
  const Tensors out = run_op(sampler_call({1, 2}, {0, 1, 2}, 7));
  std::vector<double> nodes = numbers(out.at("Out")[0]);
  for (size_t row : {1, 2}) std::sort(nodes.begin() + 5 * row + 3, nodes.begin() + 5 * row + 5);
  EXPECT_THAT(nodes, ElementsAre(1, 2, 0, 0, 0, 2, 1, 3, 4, 5, 2, 1, 4, 3, 5));
  EXPECT_THAT(numbers(out.at("Labels")[0]),
              ElementsAre(1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0));
  EXPECT_THAT(numbers(out.at("Mask")[0]), ElementsAre(1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(TdmSampler, DrawsEveryOtherNodeAsOften) {
  OpCall call = sampler_call({0, 1}, std::vector<int64_t>(20000, 1), 3);
  call.attrs["output_positive"] = false;
  const std::vector<double> nodes = numbers(run_op(call).at("Out")[0]);
  const auto fours = std::count(nodes.begin(), nodes.end(), 4.0);
  EXPECT_EQ(fours + std::count(nodes.begin(), nodes.end(), 5.0), 20000);
  EXPECT_NEAR(static_cast<double>(fours), 10000, 300);
}

TEST(TdmSampler, RefusesALeafThatIsNotThere) {
  EXPECT_THAT(error_of([] {
                run_op(sampler_call({1, 1}, {3}, 1));
              }),
              HasSubstr("X holds 3 but Travel has 3 leaves"));
}

// ---- wrong uses

TEST(WrongUse, TextsAndTreesNameWhatDoesNotFit) {
  const Tensor flat = doubles({7}, {1, 2, 3, 4, 5, 6, 7});
  expect_refused({
      spoiled("match_matrix_tensor", {{"W", {flat}}}, {}, "W has shape [7] but X"),
      spoiled("match_matrix_tensor", {{"X", {flat}}}, {}, "X has shape [7] and Y"),
      {"match_matrix_tensor",
       {{"X", {in_sequences({1, 2}, {0, 1, 2})}},
        {"Y", {in_sequences({1}, {0, 1})}},
        {"W", {doubles({1, 1, 1}, {1})}}},
       {{"dim_t", 1}},
       "X has 2 sequences but Y has 1"},
      spoiled("var_conv_2d", {{"W", {flat}}}, {}, "W has shape [7]"),
      spoiled("var_conv_2d", {{"X", {in_sequences({1, 2}, {0, 1, 1, 2})}}}, {}, "begin at"),
      spoiled("var_conv_2d", {}, {{"StrideW", 0}}, "attribute StrideW is 0"),
      spoiled("sequence_topk_avg_pooling", {}, {{"topks", Numbers{3, 1}}}, "topks is [3, 1]"),
      spoiled("sequence_topk_avg_pooling", {{"X", {flat}}}, {}, "X has shape [7]"),
      spoiled("tree_conv", {{"Filter", {flat}}}, {}, "Filter has shape [7] but NodesVector"),
      spoiled("tree_conv", {{"EdgeSet", {flat}}}, {}, "and EdgeSet [7]"),
      spoiled("tree_conv", {}, {{"max_depth", 1}}, "attribute max_depth is 1"),
      spoiled("tdm_sampler", {}, {{"neg_samples_num_list", Numbers{1, 4}}},
              "asks for 4 nodes of level 1, which has 4"),
      spoiled("tdm_sampler", {{"Travel", {flat}}}, {}, "Travel"),
  });
}

}  // namespace
}  // namespace trireme::testing
