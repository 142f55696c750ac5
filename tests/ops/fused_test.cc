// Normalisation with activation, fused elementwise ops, unique values, coalesced tensors.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/op_runner.h"
#include "tests/support/scope_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OpCall normalised(const std::string& type, const Shape& shape, Attrs attrs) {
  Draw draw(12);
  const int64_t channels = shape.back().value();
  return {.type = type,
          .inputs = {{"X", {draw.uniform(shape)}},
                     {"Scale", {draw.uniform({channels}, 0.5, 1.5)}},
                     {"Bias", {draw.uniform({channels})}},
                     {"Mean", {draw.uniform({channels})}},
                     {"Variance", {draw.uniform({channels}, 0.5, 1.5)}}},
          .attrs = std::move(attrs)};
}

TEST(InplaceAbn, IsBatchNormAndActivation) {
  const Attrs last = {{"data_layout", std::string("NHWC")}};
  const Tensors plain = run_op(normalised("batch_norm", {4, 2, 3}, last));
  Attrs attrs = last;
  attrs["activation"] = std::string("elu");
  attrs["alpha"] = 0.5f;
  const Tensors fused = run_op(normalised("inplace_abn", {4, 2, 3}, attrs));
  const std::vector<double> y = numbers(plain.at("Y")[0]), z = numbers(fused.at("Y")[0]);
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(z[i], y[i] > 0 ? y[i] : 0.5 * std::expm1(y[i]), 1e-12);
  }
  EXPECT_EQ(max_abs_diff(plain.at("MeanOut")[0], fused.at("MeanOut")[0]), 0);
  attrs["alpha"] = 0.0f;
  EXPECT_THAT(error_of([&] {
                run_op(normalised("inplace_abn", {4, 2, 3}, attrs));
              }),
              HasSubstr("alpha is 0 with activation elu"));
}

TEST(InplaceAbn, MayWriteOverItsInput) {
  const OpCall call =
      normalised("inplace_abn", {4, 3}, {{"activation", std::string("leaky_relu")}});
  const Tensor apart = run_op(call).at("Y")[0];
  ScopeRunner runner;
  for (const auto& [slot, tensors] : call.inputs) runner.set(slot, tensors[0].clone());
  runner.run("inplace_abn",
             {{"X", "X"},
              {"Scale", "Scale"},
              {"Bias", "Bias"},
              {"Mean", "Mean"},
              {"Variance", "Variance"}},
             {{"Y", "X"},
              {"MeanOut", "Mean"},
              {"VarianceOut", "Variance"},
              {"SavedMean", "sm"},
              {"SavedVariance", "sv"}},
             call.attrs);
  EXPECT_EQ(max_abs_diff(runner.tensor("X"), apart), 0);
}

TEST(FusedBatchNormAct, IsBatchNormAndRelu) {
  const Tensors plain =
      run_op(normalised("batch_norm", {4, 2, 3}, {{"data_layout", std::string("NHWC")}}));
  const Tensors fused = run_op(normalised("fused_batch_norm_act", {4, 2, 3}, {}));
  const std::vector<double> y = numbers(plain.at("Y")[0]), z = numbers(fused.at("Y")[0]);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(z[i], std::max(y[i], 0.0), 1e-12);
  EXPECT_THAT(
      error_of([] {
        run_op(normalised("fused_batch_norm_act", {4, 3}, {{"act_type", std::string("tanh")}}));
      }),
      HasSubstr("'relu'"));
}

TEST(FusedBnAddActivation, AddsBeforeRelu) {
  const OpCall plain = normalised("batch_norm", {4, 2, 3}, {{"data_layout", std::string("NHWC")}});
  OpCall added = normalised("fused_bn_add_activation", {4, 2, 3}, {});
  added.inputs["Z"] = {Draw(5).uniform({4, 2, 3})};
  const std::vector<double> y = numbers(run_op(plain).at("Y")[0]),
                            z = numbers(added.inputs["Z"][0]),
                            found = numbers(run_op(added).at("Y")[0]);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(found[i], std::max(y[i] + z[i], 0.0), 1e-12);
}

TEST(FusedElemwiseActivation, TheFirstNameIsTheOuterOne) {
  const auto run = [](std::vector<std::string> list) {
    return numbers(run_op("fused_elemwise_activation",
                          {{"X", floats({2}, {1, -3})}, {"Y", floats({2}, {-2, 5})}},
                          {{"functor_list", std::move(list)}, {"scale", 10.0f}}));
  };
  EXPECT_THAT(run({"relu", "elementwise_add"}), ElementsAre(0, 2));
  EXPECT_THAT(run({"elementwise_add", "relu"}), ElementsAre(1, 2));
  EXPECT_THAT(run({"elementwise_mul", "scale"}), ElementsAre(-20, -150));
  EXPECT_THAT(error_of([&] {
                run({"relu", "scale"});
              }),
              HasSubstr("functor_list is [relu, scale]"));
}

TEST(Unique, ValuesAsFirstMetWithTheirPlaces) {
  const Tensors out = run_op(OpCall{.type = "unique",
                                    .inputs = {{"X", {longs({6}, {2, 3, 3, 1, 5, 3})}}},
                                    .outputs = {"Out", "Index"}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(2, 3, 1, 5));
  EXPECT_THAT(numbers(out.at("Index")[0]), ElementsAre(0, 1, 1, 2, 3, 1));
  const Tensors counted =
      run_op(OpCall{.type = "unique_with_counts", .inputs = {{"X", {longs({3}, {7, 7, 4})}}}});
  EXPECT_THAT(numbers(counted.at("Count")[0]), ElementsAre(2, 1));
}

TEST(Unique, SortedAndAlongAnAxis) {
  const Tensors out = run_op(OpCall{.type = "unique",
                                    .inputs = {{"X", {longs({3, 2}, {4, 1, 2, 9, 4, 1})}}},
                                    .attrs = {{"axis", std::vector<int32_t>{0}}},
                                    .outputs = {"Out", "Index", "Indices", "Counts"}});
  EXPECT_EQ(out.at("Out")[0].shape(), Shape({2, 2}));
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(2, 9, 4, 1));
  EXPECT_THAT(numbers(out.at("Index")[0]), ElementsAre(1, 0, 1));
  EXPECT_THAT(numbers(out.at("Indices")[0]), ElementsAre(1, 0));
  EXPECT_THAT(numbers(out.at("Counts")[0]), ElementsAre(1, 2));
}

TEST(UniqueConsecutive, JoinsEqualNeighbours) {
  const Tensors out = run_op(OpCall{.type = "unique_consecutive",
                                    .inputs = {{"X", {longs({8}, {1, 1, 2, 2, 3, 1, 1, 2})}}},
                                    .outputs = {"Out", "Index", "Counts"}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(1, 2, 3, 1, 2));
  EXPECT_THAT(numbers(out.at("Index")[0]), ElementsAre(0, 0, 1, 1, 2, 3, 3, 4));
  EXPECT_THAT(numbers(out.at("Counts")[0]), ElementsAre(2, 2, 1, 2, 1));
  EXPECT_THAT(error_of([] {
                run_op(OpCall{.type = "unique_consecutive",
                              .inputs = {{"X", {longs({2}, {1, 1})}}},
                              .attrs = {{"axis", std::vector<int32_t>{1}}}});
              }),
              HasSubstr("axis"));
}

TEST(CoalesceTensor, OutputsAreViewsOfOneBuffer) {
  const Tensors out =
      run_op(OpCall{.type = "coalesce_tensor",
                    .inputs = {{"Input", {floats({2}, {1, 2}), floats({1, 3}, {3, 4, 5})}}},
                    .attrs = {{"dtype", static_cast<int32_t>(DType::float32)}, {"copy_data", true}},
                    .out_counts = {{"Output", 2}}});
  const Tensor& all = out.at("FusedOutput")[0];
  EXPECT_EQ(all.shape(), Shape({128}));
  EXPECT_THAT(numbers(out.at("Output")[1]), ElementsAre(3, 4, 5));
  EXPECT_EQ(out.at("Output")[1].shape(), Shape({1, 3}));
  EXPECT_EQ(numbers(all)[1], 2);
  EXPECT_EQ(numbers(all)[64], 3);
  EXPECT_THAT(error_of([] {
                run_op(OpCall{.type = "coalesce_tensor",
                              .inputs = {{"Input", {longs({1}, {1})}}},
                              .attrs = {{"dtype", static_cast<int32_t>(DType::float32)}}});
              }),
              HasSubstr("Input 0 is int64 but dtype says float32"));
}

}  // namespace
}  // namespace trireme::testing
