// Accuracy and area under the curve.
#include "layers/metric.h"

#include "core/text.h"
#include "layers/layer_helper.h"
#include "layers/nn.h"

namespace trireme::layers {

Var& accuracy(Var& input, Var& label, const AccuracyOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("accuracy");
  Var* values = nullptr;
  Var* indices = nullptr;
  if (defaults().style == Style::static_2_4) {
    values = &helper.create_variable_for_type_inference(input.dtype());
    indices = &helper.create_variable_for_type_inference(DType::int64);
    helper.append_op("top_k_v2", {{"X", input}}, {{"Out", *values}, {"Indices", *indices}},
                     {{"k", options.k}, {"sorted", false}});
  } else {
    const TopK top = topk(input, options.k);
    values = &top.values;
    indices = &top.indices;
  }
  Var& out = helper.create_variable_for_type_inference(DType::float32);
  Var& correct =
      options.correct ? *options.correct : helper.create_variable_for_type_inference(DType::int32);
  Var& total =
      options.total ? *options.total : helper.create_variable_for_type_inference(DType::int32);
  helper.append_op("accuracy", {{"Out", *values}, {"Indices", *indices}, {"Label", label}},
                   {{"Accuracy", out}, {"Correct", correct}, {"Total", total}});
  return out;
}

Auc auc(Var& input, Var& label, const AucOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("auc");
  if (options.slide_steps < 0 || options.num_thresholds < 1) {
    throw helper.error(cat("slide_steps is ", options.slide_steps, " and num_thresholds is ",
                           options.num_thresholds, "; at least 0 and 1 are needed"));
  }
  if (options.topk != 1) {
    throw helper.error(ErrorKind::unimplemented,
                       cat("topk is ", options.topk, "; only 1 has a meaning"));
  }
  Var& all = helper.create_variable_for_type_inference(DType::float64);
  Var& batch = helper.create_variable_for_type_inference(DType::float64);
  // The window's counts: one row of buckets per batch it looks back on, their sum, and at the end
  // the number of the batch.
  const int64_t buckets = int64_t{options.num_thresholds} + 1;
  const std::vector<int64_t> window = {(1 + int64_t{options.slide_steps}) * buckets + 1};
  const std::vector<int64_t> overall = {1, buckets};
  initializer::Constant zero;
  const auto counts = [&](const std::vector<int64_t>& shape) {
    Var& var =
        helper.create_global_variable({.dtype = DType::int64, .shape = shape, .persistable = true});
    helper.set_variable_initializer(var, zero);
    return &var;
  };
  const std::array<Var*, 4> states = {counts(window), counts(window), counts(overall),
                                      counts(overall)};
  const auto append = [&](Var& out, Var& positive, Var& negative, int slide_steps) {
    helper.append_op(
        "auc", {{"Predict", input}, {"Label", label}, {"StatPos", positive}, {"StatNeg", negative}},
        {{"AUC", out}, {"StatPosOut", positive}, {"StatNegOut", negative}},
        {{"curve", options.curve},
         {"num_thresholds", options.num_thresholds},
         {"slide_steps", slide_steps}});
  };
  append(batch, *states[0], *states[1], options.slide_steps);
  append(all, *states[2], *states[3], 0);
  return {all, batch, states};
}

}  // namespace trireme::layers
