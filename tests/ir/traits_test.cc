// What the rows of the op table say about themselves to passes, to the backward and to clones.
#include <gmock/gmock.h>

#include <functional>

#include "ir/schema.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> rows_where(const std::function<bool(const OpSchema&)>& holds) {
  std::vector<std::string> types;
  for (const OpSchema* row : op_table().rows()) {
    if (holds(*row)) types.push_back(row->type());
  }
  return types;
}

TEST(Traits, EveryGradientOpIsLinear) {
  for (const OpSchema* row : op_table().rows()) {
    const bool gradient = !row->trait().primitive && row->type().find("_grad") != std::string::npos;
    if (!gradient && !row->forward()) continue;
    EXPECT_TRUE(row->trait().linear) << row->type();
  }
}

// Those that some rows use as their gradients, or that stand between gradients.
TEST(Traits, LinearOpsThatAreNoGradientOps) {
  EXPECT_THAT(
      rows_where([](const OpSchema& row) {
        return row.trait().linear && row.type().find("_grad") == std::string::npos;
      }),
      ElementsAre("array_to_lod_tensor", "assign", "cast", "concat", "cumsum", "fill_constant",
                  "fill_zeros_like", "increment", "lod_tensor_to_array", "merge_lod_tensor",
                  "print", "read_from_array", "scale", "select_input", "select_output",
                  "sequence_reverse", "shape", "split_lod_tensor", "sum", "write_to_array"));
}

TEST(Traits, MarkersAreNoComputations) {
  EXPECT_THAT(rows_where([](const OpSchema& row) { return row.trait().marker != Marker::none; }),
              ElementsAre("create_double_buffer_reader", "create_py_reader", "delete_var", "feed",
                          "fetch", "read"));
}

TEST(Traits, BlockedImagesAreForConvolutionsAndWhatFollowsThem) {
  const auto with = [](BlockedImages images) {
    return rows_where([=](const OpSchema& row) { return row.trait().images == images; });
  };
  EXPECT_THAT(with(BlockedImages::makes),
              ElementsAre("conv2d", "conv2d_grad", "depthwise_conv2d", "depthwise_conv2d_grad"));
  EXPECT_THAT(with(BlockedImages::follows),
              ElementsAre("batch_norm", "batch_norm_grad", "pool2d", "pool2d_grad"));
  EXPECT_THAT(with(BlockedImages::any),
              ElementsAre("p.broadcast_like", "p.cast", "p.full_like", "p.sum_to_like"));
  for (const OpSchema* row : op_table().rows()) {
    if (row->trait().layout_attr.empty()) continue;
    EXPECT_NE(row->find_attribute(row->trait().layout_attr), nullptr) << row->type();
  }
}

TEST(Traits, AnOperandLookedAtForItsShapeIsOneOfTheRow) {
  EXPECT_THAT(rows_where([](const OpSchema& row) { return row.trait().like >= 0; }),
              ElementsAre("p.broadcast_like", "p.full_like", "p.reshape_like", "p.sum_to_like"));
  for (const OpSchema* row : op_table().rows()) {
    EXPECT_LT(row->trait().like, static_cast<int>(row->inputs().size())) << row->type();
  }
}

TEST(Traits, ProductsAndTheAttributeThatTurnsX) {
  EXPECT_THAT(rows_where([](const OpSchema& row) { return row.trait().product; }),
              ElementsAre("matmul", "matmul_v2", "mul"));
  for (const char* type : {"matmul", "matmul_v2"}) {
    const OpSchema& row = op_table().get(type);
    EXPECT_NE(row.find_attribute(row.trait().turns_x), nullptr) << type;
  }
}

TEST(Traits, BatchNormOverReplicasIsAnotherRow) {
  EXPECT_EQ(op_table().get("batch_norm").trait().over_replicas, "sync_batch_norm");
  EXPECT_EQ(op_table().get("batch_norm_grad").trait().over_replicas, "sync_batch_norm_grad");
  for (const OpSchema* row : op_table().rows()) {
    const std::string& other = row->trait().over_replicas;
    if (other.empty()) continue;
    // Where replicas meet there are no gradients of gradients: whoever asks is refused by name.
    const bool twice = row->forward() && row->forward()->forward();
    EXPECT_EQ(op_table().find(other) == nullptr, twice) << row->type();
  }
}

TEST(Traits, OpsWithASubBlockAndAGradientHaveABorder) {
  EXPECT_THAT(rows_where([](const OpSchema& row) { return static_cast<bool>(row.border_rule()); }),
              ElementsAre("conditional_block", "recurrent", "while"));
}

TEST(Traits, AnOpWithoutARowHasNone) {
  const auto program = Program::create();
  const Op& op = program->global_block().insert_raw_op(0, {.type = "no_such_op"}, {});
  EXPECT_EQ(traits_of(op).marker, Marker::none);
  EXPECT_FALSE(traits_of(op).host);
}

TEST(Traits, AreStatedOncePerRow) {
  Registry ops;
  OpSchema& row = ops.op("twice").traits({.host = true});
  EXPECT_THROW(row.traits({.linear = true}), InternalError);
}

}  // namespace
}  // namespace trireme
