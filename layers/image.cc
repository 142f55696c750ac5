// Layers over images: convolution, pooling and batch normalisation.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/text.h"
#include "layers/layer_helper.h"
#include "layers/nn.h"

namespace trireme::layers {
namespace {

struct ExplicitPadding {
  std::vector<int> ints;
  std::string algorithm = "EXPLICIT";
};

// The two middle pairs of NHWC, the two last of NCHW; the others must be zero.
std::vector<int> from_pairs(const LayerHelper& helper, const std::vector<std::vector<int>>& pairs,
                            bool channel_last) {
  const size_t first = channel_last ? 1 : 2;
  std::vector<int> ints;
  bool fine = pairs.size() == 4;
  for (size_t i = 0; fine && i < pairs.size(); ++i) {
    const bool spatial = i == first || i == first + 1;
    fine = pairs[i].size() == 2 && (spatial || (pairs[i][0] == 0 && pairs[i][1] == 0));
    if (fine && spatial) ints.insert(ints.end(), pairs[i].begin(), pairs[i].end());
  }
  if (fine) return ints;
  throw helper.error("padding as a list of pairs must be four pairs, zero for batch and channels")
      .fix(channel_last ? "[[0, 0], [top, bottom], [left, right], [0, 0]]"
                        : "[[0, 0], [0, 0], [top, bottom], [left, right]]");
}

ExplicitPadding resolve(const LayerHelper& helper, const Padding& padding, bool channel_last) {
  if (!padding.algorithm().empty()) {
    std::string algorithm = padding.algorithm();
    std::transform(algorithm.begin(), algorithm.end(), algorithm.begin(),
                   [](unsigned char c) { return std::toupper(c); });
    if (algorithm != "SAME" && algorithm != "VALID") {
      throw helper.error(cat("padding is \"", padding.algorithm(), "\""))
          .fix("use \"SAME\", \"VALID\" or numbers");
    }
    return {{0, 0}, algorithm};
  }
  std::vector<int> ints =
      padding.pairs().empty() ? padding.ints() : from_pairs(helper, padding.pairs(), channel_last);
  if (ints.size() == 1) return {{ints[0], ints[0]}};
  if (ints.size() == 4 && ints[0] == ints[1] && ints[2] == ints[3]) return {{ints[0], ints[2]}};
  if (ints.size() == 2 || ints.size() == 4) return {ints};
  throw helper.error(cat("padding has ", ints.size(), " numbers; it takes 1, 2 or 4"));
}

bool is_channel_last(const LayerHelper& helper, const std::string& format) {
  if (format == "NHWC") return true;
  if (format == "NCHW") return false;
  throw helper.error(cat("data_format is \"", format, "\"")).fix("use \"NCHW\" or \"NHWC\"");
}

int64_t known_channels(const LayerHelper& helper, const Var& input, int axis) {
  const Dim channels = input.shape()[axis];
  if (channels.known() && channels.value() > 0) return channels.value();
  Error open = helper.error(cat("the number of channels (dimension ", axis, ") must be known"));
  throw open.operand(cat("input   ", input.name(), "   ", input.describe()));
}

}  // namespace

Var& conv2d(Var& input, const Conv2dOptions& options, SourceLine line) {
  const LineScope scope(line);
  const LayerHelper checks("conv2d", "conv2d");
  checks.check_rank(input, "input", 4);
  const bool channel_last = is_channel_last(checks, options.data_format);
  const int64_t channels = known_channels(checks, input, channel_last ? 3 : 1);
  const int groups = options.groups.value_or(1);
  if (options.num_filters <= 0) {
    throw checks.error(cat("num_filters is ", options.num_filters, "; it must be at least 1"));
  }
  if (groups <= 0 || channels % groups != 0) {
    throw checks
        .error(
            cat("the input has ", channels, " channels, which ", groups, " groups do not divide"))
        .fix("choose groups that divide the number of channels");
  }
  if (options.num_filters % groups != 0) {
    throw checks.error(cat(options.num_filters, " filters cannot be shared by ", groups, " groups"))
        .fix("choose num_filters that groups divides");
  }
  const bool depthwise = options.groups && channels == groups &&
                         options.num_filters % channels == 0 && !options.use_cudnn;
  const char* type = depthwise ? "depthwise_conv2d" : "conv2d";

  LayerHelper helper(type, options.name);
  const DType dtype = input.dtype();
  const ExplicitPadding padding = resolve(helper, options.padding, channel_last);
  const double elements = static_cast<double>(options.filter_size.first) *
                          options.filter_size.second * static_cast<double>(channels);
  Var* filter = helper.create_parameter(
      {.attr = options.param_attr,
       .shape = {options.num_filters, channels / groups, options.filter_size.first,
                 options.filter_size.second},
       .dtype = dtype,
       .default_initializer = initializer::normal(0, std::sqrt(2 / elements))});
  if (!filter) throw helper.error("param_attr is false, but conv2d has a filter");
  Var& out = helper.create_variable_for_type_inference(dtype);
  helper.append_op(type, {{"Input", input}, {"Filter", *filter}}, {{"Output", out}},
                   {{"strides", options.stride.to_vector()},
                    {"paddings", padding.ints},
                    {"dilations", options.dilation.to_vector()},
                    {"groups", groups},
                    {"use_cudnn", options.use_cudnn},
                    {"padding_algorithm", padding.algorithm},
                    {"data_format", options.data_format}});
  Var& biased = channel_last ? helper.append_bias_op(out, options.bias_attr, 3, 4)
                             : helper.append_bias_op(out, options.bias_attr, 1, 2);
  return helper.append_activation(biased, options.act);
}

Var& pool2d(Var& input, const Pool2dOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("pool2d", options.name);
  if (options.pool_type != "max" && options.pool_type != "avg") {
    throw helper.error(cat("pool_type is \"", options.pool_type, "\""))
        .fix("use \"max\" or \"avg\"");
  }
  if (!options.global_pooling && (options.pool_size.first <= 0 || options.pool_size.second <= 0)) {
    throw helper.error(cat("pool_size is ", options.pool_size.first, " without global_pooling"))
        .fix("give pool_size, or pass global_pooling=True");
  }
  const bool channel_last = is_channel_last(helper, options.data_format);
  const ExplicitPadding padding = resolve(helper, options.pool_padding, channel_last);
  if (padding.algorithm == "VALID" && options.ceil_mode) {
    throw helper.error("ceil_mode is set, which \"VALID\" padding cannot have")
        .fix("leave out one of them");
  }
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("pool2d", {{"X", input}}, {{"Out", out}},
                   {{"pooling_type", options.pool_type},
                    {"ksize", options.pool_size.to_vector()},
                    {"global_pooling", options.global_pooling},
                    {"strides", options.pool_stride.to_vector()},
                    {"paddings", padding.ints},
                    {"padding_algorithm", padding.algorithm},
                    {"use_cudnn", options.use_cudnn},
                    {"ceil_mode", options.ceil_mode},
                    {"exclusive", options.exclusive},
                    {"data_format", options.data_format}});
  return out;
}

namespace {

// batch_norm, and what is made like it: parameters, statistics and the op named `type`, which
// writes `out`, or a variable of its own when that is null. `added`: input Z of the fused op.
Var& append_batch_norm(LayerHelper& helper, const std::string& type, Var& input, Var* out,
                       const BatchNormOptions& options, Attrs more_attrs = {},
                       Var* added = nullptr) {
  const bool channel_last = is_channel_last(helper, options.data_layout);
  const int rank = input.shape().rank();
  if (rank < 2) helper.check_rank(input, "input", 4);
  const int64_t channels = known_channels(helper, input, channel_last ? rank - 1 : 1);
  // Statistics of half-precision inputs are float32.
  const bool half = input.dtype() == DType::float16 || input.dtype() == DType::bfloat16;
  const DType dtype = half ? DType::float32 : input.dtype();

  const auto moving = [&](const std::string& name, double start) -> Var& {
    return *helper.create_parameter(
        {.attr = ParamAttr{.name = name,
                           .initializer = initializer::constant(start),
                           .trainable = false,
                           .do_model_average = options.do_model_average_for_mean_and_var},
         .shape = {channels},
         .dtype = dtype,
         .stop_gradient = true});
  };
  Var* scale = helper.create_parameter({.attr = options.param_attr,
                                        .shape = {channels},
                                        .dtype = dtype,
                                        .default_initializer = initializer::constant(1)});
  Var* bias = helper.create_parameter(
      {.attr = options.bias_attr, .shape = {channels}, .dtype = dtype, .is_bias = true});
  if (!scale || !bias) {
    throw helper
        .error(cat(scale ? "bias_attr" : "param_attr", " is false, but ", type, " has both"))
        .fix("use ParamAttr(trainable=False) to keep it as it is initialized");
  }
  Var& mean = moving(options.moving_mean_name, 0);
  Var& variance = moving(options.moving_variance_name, 1);
  Var& saved_mean = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  Var& saved_variance = helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
  VarSlots inputs = {
      {"X", input}, {"Scale", *scale}, {"Bias", *bias}, {"Mean", mean}, {"Variance", variance}};
  if (options.momentum_tensor) inputs.push_back({"MomentumTensor", *options.momentum_tensor});
  VarSlots outputs = {{"MeanOut", mean},
                      {"VarianceOut", variance},
                      {"SavedMean", saved_mean},
                      {"SavedVariance", saved_variance}};
  const bool new_form = defaults().style == Style::static_2_4 && type == "batch_norm";
  if (new_form) {
    inputs.push_back({"MeanOut", mean});
    inputs.push_back({"VarianceOut", variance});
  }
  if (added) inputs.push_back({"Z", *added});
  if (added || (new_form && !options.is_test)) {
    outputs.push_back({"ReserveSpace", helper.create_variable_for_type_inference(
                                           input.dtype(), /*stop_gradient=*/true)});
  }
  if (!out) out = &helper.create_variable_for_type_inference(input.dtype());
  outputs.push_back({"Y", *out});
  Attrs attrs = {{"momentum", static_cast<float>(options.momentum)},
                 {"epsilon", static_cast<float>(options.epsilon)}};
  if (!added) {
    attrs["is_test"] = options.is_test;
    attrs["data_layout"] = options.data_layout;
    attrs["use_global_stats"] = options.use_global_stats;
  }
  attrs.merge(more_attrs);
  helper.append_op(type, inputs, outputs, std::move(attrs));
  return *out;
}

}  // namespace

Var& batch_norm(Var& input, const BatchNormOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("batch_norm", options.name);
  Var& out =
      append_batch_norm(helper, "batch_norm", input, options.in_place ? &input : nullptr, options);
  return helper.append_activation(out, options.act);
}

Var& inplace_abn(Var& input, const InplaceAbnOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("inplace_abn", options.norm.name);
  const std::string& act = options.norm.act;
  if (!act.empty() && act != "identity" && act != "leaky_relu" && act != "elu") {
    throw helper.error(cat("act is \"", act, "\", which cannot be undone"))
        .fix("use \"identity\", \"leaky_relu\" or \"elu\", or batch_norm with this act");
  }
  // The result takes the input's place.
  return append_batch_norm(helper, "inplace_abn", input, &input, options.norm,
                           {{"activation", act}, {"alpha", static_cast<float>(options.act_alpha)}});
}

Var& fused_bn_add_act(Var& x, Var& y, const BatchNormOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("fused_bn_add_act", options.name);
  if (options.act != "relu") {
    throw helper.error(cat("act is \"", options.act, "\""))
        .fix("use \"relu\", or batch_norm, an addition and this act");
  }
  BatchNormOptions norm = options;
  norm.data_layout = "NHWC";
  return append_batch_norm(helper, "fused_bn_add_activation", x, nullptr, norm,
                           {{"act_type", options.act}}, &y);
}

}  // namespace trireme::layers
