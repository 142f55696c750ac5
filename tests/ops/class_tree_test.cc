// nce and hierarchical_sigmoid against their formulas written out.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/small.h"
#include "tests/support/op_runner.h"
#include "tests/support/scope_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OpCall nce_call() {
  return {.type = "nce",
          .inputs = {{"Input", {doubles({2, 2}, {0.5, -1, 2, 0.25})}},
                     {"Label", {longs({2, 1}, {1, 3})}},
                     {"Weight", {doubles({4, 2}, {1, 2, -1, 0.5, 0.25, 3, 1, -2})}},
                     {"Bias", {doubles({4, 1}, {0.1, 0.2, 0.3, 0.4})}}},
          .attrs = {{"num_total_classes", 4},
                    {"num_neg_samples", 2},
                    {"custom_neg_classes", std::vector<int32_t>{0, 2}}}};
}

TEST(Nce, CostsTheRightClassAgainstTheDrawnOnes) {
  const OpCall call = nce_call();
  const Tensors out = run_op(call);
  const double* x = call.inputs.at("Input")[0].data<double>();
  const double* w = call.inputs.at("Weight")[0].data<double>();
  const double* bias = call.inputs.at("Bias")[0].data<double>();
  for (int row = 0; row < 2; ++row) {
    const int classes[] = {row == 0 ? 1 : 3, 0, 2};
    double cost = 0;
    for (int j = 0; j < 3; ++j) {
      const int c = classes[j];
      const double o = sigmoid(x[2 * row] * w[2 * c] + x[2 * row + 1] * w[2 * c + 1] + bias[c]);
      const double b = 2 * 0.25;  // two draws of four classes
      cost -= std::log((j == 0 ? o : b) / (o + b));
    }
    EXPECT_NEAR(numbers(out.at("Cost")[0])[static_cast<size_t>(row)], cost, 1e-12);
  }
  EXPECT_THAT(numbers(out.at("SampleLabels")[0]), ElementsAre(1, 0, 2, 3, 0, 2));

  OpCall weighted = call;
  weighted.inputs["SampleWeight"] = {doubles({2, 1}, {2, 0})};
  const std::vector<double> costs = numbers(run_op(weighted).at("Cost")[0]);
  EXPECT_NEAR(costs[0], 2 * numbers(out.at("Cost")[0])[0], 1e-12);
  EXPECT_EQ(costs[1], 0);
}

// The classes of many draws with one sampler.
std::vector<double> drawn(int sampler, Tensors tables = {}) {
  constexpr int64_t kRows = 20000;
  OpCall call{
      .type = "nce",
      .inputs = {{"Input", {filled(DType::float32, {kRows, 1}, 0)}},
                 {"Label", {filled(DType::int64, {kRows, 1}, 0)}},
                 {"Weight", {filled(DType::float32, {4, 1}, 0)}}},
      .attrs = {
          {"num_total_classes", 4}, {"num_neg_samples", 1}, {"sampler", sampler}, {"seed", 3}}};
  for (auto& [slot, table] : tables) call.inputs[slot] = table;
  const Tensor labels = run_op(call).at("SampleLabels")[0];
  std::vector<double> share(4);
  for (int64_t row = 0; row < kRows; ++row) {
    share[static_cast<size_t>(labels.data<int64_t>()[2 * row + 1])] += 1.0 / kRows;
  }
  return share;
}

TEST(Nce, SamplersDrawAsTheySay) {
  // A share of 20000 draws deviates by 0.0035 at most; four times that.
  constexpr double kNear = 0.014;
  for (const double share : drawn(0)) EXPECT_NEAR(share, 0.25, kNear);
  const std::vector<double> low_first = drawn(1);
  for (size_t c = 0; c < 3; ++c) {
    const double v = static_cast<double>(c);
    EXPECT_NEAR(low_first[c], std::log((v + 2) / (v + 1)) / std::log(4.0), kNear);
  }
  EXPECT_EQ(low_first[3], 0);
  // 0.1, 0.2, 0.3, 0.4 by alias tables: place 0 keeps 0.4 and gives the rest to 3, and so on.
  const std::vector<float> keeps = {0.4f, 0.8f, 1.0f, 1.0f};
  const std::vector<int32_t> alias = {3, 2, -1, -1};
  const std::vector<float> probs = {0.1f, 0.2f, 0.3f, 0.4f};
  const std::vector<double> custom =
      drawn(2, {{"CustomDistProbs", {floats({4}, probs)}},
                {"CustomDistAliasProbs", {floats({4}, keeps)}},
                {"CustomDistAlias", {make_tensor<int32_t>({4}, std::span(alias))}}});
  for (size_t c = 0; c < 4; ++c) EXPECT_NEAR(custom[c], static_cast<double>(probs[c]), kNear);
}

TEST(Nce, ALabelOutOfRangeAndMissingTablesAreNamed) {
  OpCall call = nce_call();
  call.inputs["Label"] = {longs({2, 1}, {1, 4})};
  EXPECT_THAT(error_of([&] { run_op(call); }), HasSubstr("4"));
  call = nce_call();
  call.attrs["sampler"] = 2;
  EXPECT_THAT(error_of([&] { run_op(call); }), HasSubstr("sampler 2 needs CustomDistProbs"));
}

TEST(HierarchicalSigmoid, CostsTheDecisionsOnTheWayToTheLeaf) {
  // Four classes: class 2 is leaf 6 = 110 in binary. From the leaf up: node 6/2 - 1 = 2 with bit 0,
  // then node 3/2 - 1 = 0 with bit 1.
  const Tensor x = doubles({1, 2}, {0.5, -1}), w = doubles({3, 2}, {1, 2, -1, 0.5, 0.25, 3});
  const Tensors out =
      run_op(OpCall{.type = "hierarchical_sigmoid",
                    .inputs = {{"X", {x}}, {"W", {w}}, {"Label", {longs({1, 1}, {2})}}},
                    .attrs = {{"num_classes", 4}}});
  const double node2 = 0.5 * 0.25 - 3, node0 = 0.5 - 2;
  EXPECT_NEAR(numbers(out.at("Out")[0])[0],
              -std::log(1 - sigmoid(node2)) - std::log(sigmoid(node0)), 1e-12);
  EXPECT_EQ(out.at("PreOut")[0].shape(), Shape({1, 2}));
}

TEST(HierarchicalSigmoid, CustomPathsEndAtMinusOne) {
  const Tensors out = run_op(OpCall{.type = "hierarchical_sigmoid",
                                    .inputs = {{"X", {doubles({1, 1}, {2})}},
                                               {"W", {doubles({3, 1}, {1, -1, 0.5})}},
                                               {"Label", {longs({1, 1}, {0})}},
                                               {"PathTable", {longs({1, 3}, {2, 1, -1})}},
                                               {"PathCode", {longs({1, 3}, {1, 0, -1})}},
                                               {"Bias", {doubles({3, 1}, {0, 0.25, 0})}}},
                                    .attrs = {{"num_classes", 3}}});
  // The place past the end counts log 2, as in the original.
  EXPECT_NEAR(numbers(out.at("Out")[0])[0],
              -std::log(sigmoid(1)) - std::log(1 - sigmoid(-1.75)) + std::log(2.0), 1e-12);
}

TEST(HierarchicalSigmoid, ASparseGradientNamesTheNodesOfThePaths) {
  ScopeRunner runner;
  runner.set("x", doubles({1, 1}, {2}));
  runner.set("w", doubles({3, 1}, {1, -1, 0.5}));
  runner.set("label", longs({1, 1}, {0}));
  runner.set("table", longs({1, 3}, {2, 1, -1}));
  runner.set("code", longs({1, 3}, {1, 0, -1}));
  const std::map<std::string, std::string> ins = {
      {"X", "x"}, {"W", "w"}, {"Label", "label"}, {"PathTable", "table"}, {"PathCode", "code"}};
  const Attrs attrs = {{"num_classes", 3}, {"is_sparse", true}};
  runner.run("hierarchical_sigmoid", ins, {{"Out", "out"}, {"PreOut", "pre"}, {"W_Out", "w"}},
             attrs);
  runner.set("dout", doubles({1, 1}, {1}));
  std::map<std::string, std::string> grad_ins = ins;
  grad_ins["PreOut"] = "pre";
  grad_ins["Out@GRAD"] = "dout";
  runner.set("dw", SelectedRows{});
  runner.run("hierarchical_sigmoid_grad", grad_ins, {{"W@GRAD", "dw"}}, attrs);
  EXPECT_THAT(runner.rows("dw").rows, ElementsAre(2, 1, 2));
  EXPECT_EQ(runner.rows("dw").height, 3);
  EXPECT_THAT(numbers(runner.tensor("w")), ElementsAre(1, -1, 0.5));
}

TEST(HierarchicalSigmoid, AWrongNumberOfNodesIsNamed) {
  EXPECT_THAT(error_of([] {
                run_op(OpCall{.type = "hierarchical_sigmoid",
                              .inputs = {{"X", {doubles({1, 1}, {2})}},
                                         {"W", {doubles({3, 1}, {1, 2, 3})}},
                                         {"Label", {longs({1, 1}, {0})}}},
                              .attrs = {{"num_classes", 3}}});
              }),
              HasSubstr("W has 3 rows but a tree of 3 classes has 2 nodes"));
}

}  // namespace
}  // namespace trireme::testing
