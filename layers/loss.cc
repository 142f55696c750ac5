// Losses.
#include "layers/loss.h"

#include "layers/layer_helper.h"

namespace trireme::layers {

Var& cross_entropy(Var& input, Var& label, const CrossEntropyOptions& options, SourceLine line) {
  const LineScope scope(line);
  if (options.soft_label) {
    LayerHelper helper("cross_entropy");
    Var& out = helper.create_variable_for_type_inference(input.dtype());
    helper.append_op("cross_entropy", {{"X", input}, {"Label", label}}, {{"Y", out}},
                     {{"soft_label", true}, {"ignore_index", options.ignore_index}});
    return out;
  }
  LayerHelper helper("cross_entropy2");
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  Var& x_shape = helper.create_variable_for_type_inference(input.dtype());
  Var& match_x = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("cross_entropy2", {{"X", input}, {"Label", label}},
                   {{"Y", out}, {"XShape", x_shape}, {"MatchX", match_x}},
                   {{"ignore_index", options.ignore_index}});
  return out;
}

SoftmaxCrossEntropy softmax_with_cross_entropy(Var& logits, Var& label,
                                               const SoftmaxCrossEntropyOptions& options,
                                               SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("softmax_with_cross_entropy");
  Var& softmax = helper.create_variable_for_type_inference(logits.dtype());
  Var& loss = helper.create_variable_for_type_inference(logits.dtype());
  helper.append_op("softmax_with_cross_entropy", {{"Logits", logits}, {"Label", label}},
                   {{"Softmax", softmax}, {"Loss", loss}},
                   {{"soft_label", options.soft_label},
                    {"ignore_index", options.ignore_index},
                    {"numeric_stable_mode", options.numeric_stable_mode},
                    {"axis", options.axis}});
  return {loss, softmax};
}

Var& square_error_cost(Var& input, Var& label, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("square_error_cost");
  Var& difference = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("elementwise_sub", {{"X", input}, {"Y", label}}, {{"Out", difference}});
  Var& square = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("square", {{"X", difference}}, {{"Out", square}});
  return square;
}

Var& sigmoid_cross_entropy_with_logits(Var& x, Var& label,
                                       const SigmoidCrossEntropyOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("sigmoid_cross_entropy_with_logits", options.name);
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("sigmoid_cross_entropy_with_logits", {{"X", x}, {"Label", label}},
                   {{"Out", out}},
                   {{"ignore_index", options.ignore_index}, {"normalize", options.normalize}});
  return out;
}

Var& log_loss(Var& input, Var& label, double epsilon, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("log_loss", name);
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("log_loss", {{"Predicted", input}, {"Labels", label}}, {{"Loss", out}},
                   {{"epsilon", static_cast<float>(epsilon)}});
  return out;
}

Var& label_smooth(Var& label, const LabelSmoothOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("label_smooth", options.name);
  VarSlots inputs = {{"X", label}};
  if (options.prior_dist) inputs.push_back({"PriorDist", *options.prior_dist});
  Var& out = helper.create_variable_for_type_inference(options.dtype);
  helper.append_op("label_smooth", inputs, {{"Out", out}},
                   {{"epsilon", static_cast<float>(options.epsilon)}});
  return out;
}

Var& mean(Var& x, const std::string& name, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("mean", name);
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("mean", {{"X", x}}, {{"Out", out}});
  return out;
}

}  // namespace trireme::layers
