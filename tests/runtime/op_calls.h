// Calls of every op: the samples of the table, and one of each op that has none there.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/schema.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {

// A table: a call of each op.
inline std::vector<OpCall> calls_without_samples() {
  Draw draw(1);
  const auto sequences = [&](Tensor tensor) {  // of five rows
    tensor.set_lod({{0, 2, 5}});
    return tensor;
  };
  const Tensor x = draw.uniform({4, 3}), y = draw.uniform({4, 3}), one = draw.uniform({1});
  const Tensor classes = draw.ints({4, 1}, 0, 2), words = sequences(draw.ints({5, 1}, 0, 2));
  const Tensor truths = draw.bools({4, 3}), counts = filled(DType::int64, {1, 12}, 0);
  const Tensor steps = filled(DType::int32, {1}, 1);
  const SelectedRows rows{.rows = {5, 1, 5}, .height = 6, .value = draw.uniform({3, 2})};
  const std::vector<int> shape = {4, 3};
  const std::vector<int64_t> wide_shape = {4, 3};

  std::vector<OpCall> calls = {
      {.type = "accuracy",
       .inputs = {{"Out", {x}}, {"Indices", {draw.ints({4, 3}, 0, 2)}}, {"Label", {classes}}}},
      {.type = "allclose", .inputs = {{"Input", {x}}, {"Other", {y}}}},
      {.type = "arg_max", .inputs = {{"X", {x}}}, .attrs = {{"axis", int64_t{1}}}},
      {.type = "arg_min", .inputs = {{"X", {x}}}, .attrs = {{"axis", int64_t{0}}}},
      {.type = "assign_value",
       .inputs = {},
       .attrs = {{"shape", std::vector<int>{2}},
                 {"dtype", 5},
                 {"fp32_values", std::vector<float>{1, 2}}}},
      {.type = "auc",
       .inputs = {{"Predict", {draw.uniform({4, 2}, 0, 1)}},
                  {"Label", {draw.ints({4, 1}, 0, 1)}},
                  {"StatPos", {counts}},
                  {"StatNeg", {counts}}},
       .attrs = {{"num_thresholds", 11}, {"slide_steps", 0}}},
      {.type = "c_sync_calc_stream", .inputs = {{"X", {x}}}},
      {.type = "c_sync_comm_stream", .inputs = {{"X", {x}}}},
      {.type = "check_finite_and_unscale",
       .inputs = {{"X", {x, y}}, {"Scale", {one}}},
       .out_counts = {{"Out", 2}}},
      {.type = "chunk_eval",
       .inputs = {{"Inference", {words}}, {"Label", {words}}},
       .attrs = {{"num_chunk_types", 1}}},
      {.type = "diag", .inputs = {{"Diagonal", {draw.uniform({3})}}}},
      {.type = "edit_distance", .inputs = {{"Hyps", {words}}, {"Refs", {words}}}},
      {.type = "elementwise_mul", .inputs = {{"Y", {one}}}, .sparse_inputs = {{"X", rows}}},
      {.type = "eye", .inputs = {}, .attrs = {{"num_rows", int64_t{3}}}},
      {.type = "fill_any_like", .inputs = {{"X", {x}}}, .attrs = {{"value", 2.0f}}},
      {.type = "fill_constant", .inputs = {}, .attrs = {{"shape", wide_shape}, {"value", 2.0f}}},
      {.type = "fill_zeros_like", .inputs = {{"X", {x}}}},
      {.type = "gather_tree",
       .inputs = {{"Ids", {draw.ints({3, 2, 2}, 0, 9)}},
                  {"Parents", {draw.ints({3, 2, 2}, 0, 1)}}}},
      {.type = "get_tensor_from_selected_rows", .inputs = {}, .sparse_inputs = {{"X", rows}}},
      {.type = "is_empty", .inputs = {{"X", {x}}}},
      {.type = "linspace",
       .inputs = {{"Start", {doubles({1}, {0})}},
                  {"Stop", {doubles({1}, {5})}},
                  {"Num", {filled(DType::int32, {1}, 4)}}}},
      {.type = "logical_not", .inputs = {{"X", {truths}}}},
      {.type = "merge_selected_rows", .inputs = {}, .sparse_inputs = {{"X", rows}}},
      {.type = "one_hot", .inputs = {{"X", {classes}}}, .attrs = {{"depth", 3}}},
      {.type = "one_hot_v2", .inputs = {{"X", {classes}}}, .attrs = {{"depth", 3}}},
      {.type = "randint", .inputs = {}, .attrs = {{"shape", wide_shape}, {"low", 0}, {"high", 9}}},
      {.type = "range",
       .inputs = {{"Start", {doubles({1}, {0})}},
                  {"End", {doubles({1}, {5})}},
                  {"Step", {doubles({1}, {2})}}}},
      {.type = "reduce_all", .inputs = {{"X", {truths}}}},
      {.type = "reduce_any", .inputs = {{"X", {truths}}}},
      {.type = "ref_by_trainer_id", .inputs = {{"X", {x, y}}, {"TrainerId", {longs({1}, {1})}}}},
      {.type = "sampling_id", .inputs = {{"X", {draw.uniform({4, 3}, 0.1, 1)}}}},
      {.type = "seed", .inputs = {}},
      {.type = "sequence_enumerate", .inputs = {{"X", {words}}}, .attrs = {{"win_size", 2}}},
      {.type = "sequence_erase",
       .inputs = {{"X", {words}}},
       .attrs = {{"tokens", std::vector<int>{1}}}},
      {.type = "shape", .inputs = {{"Input", {x}}}},
      {.type = "shard_index",
       .inputs = {{"X", {classes}}},
       .attrs = {{"index_num", 4}, {"nshards", 2}, {"shard_id", 1}}},
      {.type = "size", .inputs = {{"Input", {x}}}},
      {.type = "split_selected_rows",
       .inputs = {},
       .attrs = {{"height_sections", std::vector<int64_t>{2, 4}}},
       .out_counts = {{"Out", 2}},
       .sparse_inputs = {{"X", rows}}},
      {.type = "truncated_gaussian_random", .inputs = {}, .attrs = {{"shape", shape}}},
      {.type = "update_loss_scaling",
       .inputs = {{"X", {x, y}},
                  {"FoundInfinite", {filled(DType::boolean, {1}, 0)}},
                  {"PrevLossScaling", {floats({1}, {8})}},
                  {"InGoodSteps", {steps}},
                  {"InBadSteps", {steps}}},
       .attrs = {{"incr_every_n_steps", 2},
                 {"decr_every_n_nan_or_inf", 2},
                 {"incr_ratio", 2.0f},
                 {"decr_ratio", 0.5f}},
       .out_counts = {{"Out", 2}}},
      {.type = "where_index", .inputs = {{"Condition", {truths}}}},
  };
  for (const char* type : {"elementwise_floordiv", "elementwise_mod"}) {
    calls.push_back({.type = type,
                     .inputs = {{"X", {draw.ints({4, 3}, 0, 9)}}, {"Y", {draw.ints({3}, 1, 4)}}}});
  }
  for (const char* type :
       {"equal", "greater_equal", "greater_than", "less_equal", "less_than", "not_equal"}) {
    calls.push_back({.type = type, .inputs = {{"X", {x}}, {"Y", {y}}}});
  }
  for (const char* type : {"logical_and", "logical_or", "logical_xor"}) {
    calls.push_back({.type = type, .inputs = {{"X", {truths}}, {"Y", {truths}}}});
  }
  for (const char* type : {"isfinite", "isinf", "isnan"}) {
    calls.push_back({.type = type, .inputs = {{"X", {x}}}});
  }
  for (const char* type : {"gaussian_random", "uniform_random"}) {
    calls.push_back({.type = type, .inputs = {}, .attrs = {{"shape", wide_shape}}});
  }
  for (const char* type : {"fill_constant_batch_size_like", "gaussian_random_batch_size_like",
                           "uniform_random_batch_size_like"}) {
    calls.push_back({.type = type, .inputs = {{"Input", {x}}}, .attrs = {{"shape", shape}}});
  }
  return calls;
}

// Ops that take SelectedRows too, by the slot.
inline const std::map<std::string, std::set<std::string>> kTakeRows = {
    {"Grad", {"adagrad", "adam", "lamb", "momentum", "rmsprop", "sgd"}},
    {"X", {"clip", "clip_by_norm", "isfinite", "isinf", "isnan", "scale", "sum"}}};

// The call with three rows there, one of them named twice.
inline std::optional<OpCall> of_rows(OpCall call) {
  for (const auto& [slot, ops] : kTakeRows) {
    if (!ops.contains(call.type)) continue;
    const Tensor dense = call.inputs.at(slot).front();
    Shape shape = dense.shape();
    const int64_t height = shape.at(0);
    shape[0] = 3;
    call.inputs.erase(slot);
    call.sparse_inputs[slot] = {.rows = {height - 1, 0, height - 1},
                                .height = height,
                                .value = filled(dense.dtype(), shape, 0.5)};
    return call;
  }
  return std::nullopt;
}

// Of the table's samples, and where it has none, those above.
inline std::vector<OpCall> calls_of(const OpSchema& row) {
  std::vector<OpCall> calls;
  for (size_t rule = 0; rule < row.samples().size(); ++rule) {
    Draw draw(rule + 1);
    const OpSample sample = row.samples()[rule](draw);
    calls.push_back({.type = row.type(),
                     .inputs = sample.inputs,
                     .attrs = sample.attrs,
                     .out_counts = sample.out_counts});
  }
  for (const OpCall& call : calls_without_samples()) {
    if (call.type == row.type()) calls.push_back(call);
  }
  return calls;
}

}  // namespace trireme::testing
