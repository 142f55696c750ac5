// Makes the parameters of these layers and appends their ops.
#include "layers/norm.h"

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

int64_t known_dim(const LayerHelper& helper, const Var& x, int axis) {
  const Dim dim = x.shape()[axis];
  if (dim.known()) return dim.value();
  throw helper.error(cat("dimension ", axis, " of ", x.name(), " must be known: ", x.describe()));
}

void check_at_least_rank_2(const LayerHelper& helper, const Var& x) {
  if (x.shape().rank() >= 2) return;
  throw helper.error(cat(x.name(), " has ", x.shape().rank(), " dimensions"))
      .fix("give an input [batch, channels, ...]");
}

}  // namespace

Var& group_norm(Var& input, const GroupNormOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("group_norm", options.name);
  check_at_least_rank_2(helper, input);
  if (options.data_layout != "NCHW" && options.data_layout != "NHWC") {
    throw helper.error(cat("data_layout is \"", options.data_layout, "\""))
        .fix("use \"NCHW\" or \"NHWC\"");
  }
  const bool channel_last = options.data_layout == "NHWC";
  const int64_t channels = known_dim(helper, input, channel_last ? input.shape().rank() - 1 : 1);
  const DType dtype = input.dtype();
  VarSlots inputs = {{"X", input}};
  if (options.param_attr) {
    Var* scale = helper.create_parameter({.attr = *options.param_attr,
                                          .shape = {channels},
                                          .dtype = dtype,
                                          .default_initializer = initializer::constant(1)});
    if (scale) inputs.push_back({"Scale", *scale});
  }
  if (options.bias_attr) {
    Var* bias = helper.create_parameter(
        {.attr = *options.bias_attr, .shape = {channels}, .dtype = dtype, .is_bias = true});
    if (bias) inputs.push_back({"Bias", *bias});
  }
  Var& mean = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  Var& variance = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  Var& out = helper.create_variable_for_type_inference(dtype);
  helper.append_op("group_norm", inputs, {{"Y", out}, {"Mean", mean}, {"Variance", variance}},
                   {{"epsilon", static_cast<float>(options.epsilon)},
                    {"groups", options.groups},
                    {"data_layout", options.data_layout}});
  return helper.append_activation(out, options.act);
}

Var& instance_norm(Var& input, const InstanceNormOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("instance_norm", options.name);
  check_at_least_rank_2(helper, input);
  if (options.param_attr.wanted() != options.bias_attr.wanted()) {
    throw helper.error("only one of param_attr and bias_attr is false")
        .fix("set both to false, or neither");
  }
  const int64_t channels = known_dim(helper, input, 1);
  const DType dtype = input.dtype();
  VarSlots inputs = {{"X", input}};
  if (options.param_attr.wanted()) {
    inputs.push_back(
        {"Scale", *helper.create_parameter({.attr = options.param_attr,
                                            .shape = {channels},
                                            .dtype = dtype,
                                            .default_initializer = initializer::constant(1)})});
    inputs.push_back(
        {"Bias",
         *helper.create_parameter(
             {.attr = options.bias_attr, .shape = {channels}, .dtype = dtype, .is_bias = true})});
  }
  Var& mean = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  Var& variance = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  Var& out = helper.create_variable_for_type_inference(dtype);
  helper.append_op("instance_norm", inputs,
                   {{"Y", out}, {"SavedMean", mean}, {"SavedVariance", variance}},
                   {{"epsilon", static_cast<float>(options.epsilon)}});
  return out;
}

Var& prelu(Var& x, const PreluOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("prelu", options.name);
  std::vector<int64_t> shape = {1};
  if (options.mode == "channel") {
    check_at_least_rank_2(helper, x);
    shape = {1, known_dim(helper, x, 1), 1, 1};
  } else if (options.mode == "element") {
    for (int axis = 1; axis < x.shape().rank(); ++axis) {
      shape.push_back(known_dim(helper, x, axis));
    }
  } else if (options.mode != "all") {
    throw helper.error(cat("mode is \"", options.mode, "\""))
        .fix("use \"all\", \"channel\" or \"element\"");
  }
  Var* alpha = helper.create_parameter({.attr = options.param_attr,
                                        .shape = shape,
                                        .dtype = x.dtype(),
                                        .default_initializer = initializer::constant(0.25)});
  if (!alpha) throw helper.error("param_attr is false, but prelu has its slopes");
  Var& out = helper.create_variable_for_type_inference(x.dtype());
  helper.append_op("prelu", {{"X", x}, {"Alpha", *alpha}}, {{"Out", out}},
                   {{"mode", options.mode}});
  return out;
}

Var& spectral_norm(Var& weight, const SpectralNormOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("spectral_norm", options.name);
  check_at_least_rank_2(helper, weight);
  if (options.dim < 0 || options.dim >= weight.shape().rank()) {
    throw helper.error(cat("dim is ", options.dim, " but the weight is ", weight.describe()))
        .fix(cat("choose from 0 to ", weight.shape().rank() - 1));
  }
  int64_t height = 1, width = 1;
  for (int axis = 0; axis < weight.shape().rank(); ++axis) {
    (axis == options.dim ? height : width) *= known_dim(helper, weight, axis);
  }
  const auto vector = [&](int64_t size) -> Var& {
    Var* made = helper.create_parameter({.attr = {},
                                         .shape = {size},
                                         .dtype = weight.dtype(),
                                         .default_initializer = initializer::normal(0, 1)});
    made->set_stop_gradient(true);
    return *made;
  };
  Var& u = vector(height);
  Var& v = vector(width);
  Var& out = helper.create_variable_for_type_inference(weight.dtype());
  helper.append_op("spectral_norm", {{"Weight", weight}, {"U", u}, {"V", v}}, {{"Out", out}},
                   {{"dim", options.dim},
                    {"power_iters", options.power_iters},
                    {"eps", static_cast<float>(options.eps)}});
  return out;
}

}  // namespace trireme::layers
