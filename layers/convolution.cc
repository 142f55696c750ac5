// Resolves sizes, paddings and filters, then appends the convolution.
#include "layers/convolution.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

using Ints = std::vector<int>;

// What the layers of this file have in common, whatever their number of spatial dimensions.
struct Convolution {
  std::string type;
  int num_filters;
  std::optional<Ints> output_size, filter_size;
  const Padding& padding;
  Ints stride, dilation;
  int groups;
  const ParamArg& param_attr;
  const ParamArg& bias_attr;
  bool use_cudnn;
  const std::string& act;
  const std::string& name;
  const std::string& data_format;
  bool transposed;
  int spatial() const { return static_cast<int>(stride.size()); }
};

bool is_channel_last(const LayerHelper& helper, const std::string& format, int spatial) {
  const char* first = spatial == 3 ? "NCDHW" : "NCHW";
  const char* last = spatial == 3 ? "NDHWC" : "NHWC";
  if (format == last) return true;
  if (format == first) return false;
  throw helper.error(cat("data_format is \"", format, "\""))
      .fix(cat("use \"", first, "\" or \"", last, "\""));
}

struct Paddings {
  Ints ints;  // one per dimension, or begin and end of each
  std::string algorithm = "EXPLICIT";
};

// Pairs for every dimension of the input: those of batch and channels must be zero.
Ints from_pairs(const LayerHelper& helper, const std::vector<Ints>& pairs, int spatial,
                bool channel_last) {
  const size_t first = channel_last ? 1 : 2;
  Ints ints;
  bool fine = pairs.size() == static_cast<size_t>(spatial) + 2;
  for (size_t i = 0; fine && i < pairs.size(); ++i) {
    const bool inside = i >= first && i < first + static_cast<size_t>(spatial);
    fine = pairs[i].size() == 2 && (inside || (pairs[i][0] == 0 && pairs[i][1] == 0));
    if (fine && inside) ints.insert(ints.end(), pairs[i].begin(), pairs[i].end());
  }
  if (fine) return ints;
  throw helper.error(cat("padding as a list of pairs must be ", spatial + 2,
                         " pairs, zero for batch and channels"));
}

Paddings resolve(const LayerHelper& helper, const Padding& padding, int spatial,
                 bool channel_last) {
  const auto dims = static_cast<size_t>(spatial);
  if (!padding.algorithm().empty()) {
    std::string algorithm = padding.algorithm();
    std::ranges::transform(algorithm, algorithm.begin(),
                           [](unsigned char c) { return std::toupper(c); });
    if (algorithm != "SAME" && algorithm != "VALID") {
      throw helper.error(cat("padding is \"", padding.algorithm(), "\""))
          .fix("use \"SAME\", \"VALID\" or numbers");
    }
    return {Ints(dims, 0), algorithm};
  }
  Ints ints = padding.pairs().empty() ? padding.ints()
                                      : from_pairs(helper, padding.pairs(), spatial, channel_last);
  if (ints.size() == 1) return {Ints(dims, ints[0])};
  if (ints.size() == dims) return {ints};
  if (ints.size() != 2 * dims) {
    throw helper.error(
        cat("padding has ", ints.size(), " numbers; it takes 1, ", dims, " or ", 2 * dims));
  }
  Ints begins;
  for (size_t i = 0; i < dims; ++i) {
    if (ints[2 * i] == ints[2 * i + 1]) begins.push_back(ints[2 * i]);
  }
  return {begins.size() == dims ? begins : ints};
}

// The filter that makes an image of output_size; the inverse of the transposed output's size.
Ints filter_for(const LayerHelper& helper, const Var& input, const Convolution& c,
                const Paddings& padding, bool channel_last) {
  if (!c.output_size) {
    throw helper.error("neither filter_size nor output_size is given").fix("give one of them");
  }
  const bool both_ends = padding.ints.size() == 2 * c.stride.size();
  Ints sizes;
  for (size_t i = 0; i < c.stride.size(); ++i) {
    const Dim extent = input.shape()[static_cast<int>(i) + (channel_last ? 1 : 2)];
    if (!extent.known()) {
      throw helper
          .error(cat("dimension ", i + (channel_last ? 1 : 2), " of ", input.name(),
                     " is unknown, so output_size does not say the filter_size"))
          .fix("give filter_size");
    }
    const int around =
        both_ends ? padding.ints[2 * i] + padding.ints[2 * i + 1] : 2 * padding.ints[i];
    const int64_t reach = (*c.output_size)[i] - (extent.value() - 1) * c.stride[i] + around - 1;
    sizes.push_back(static_cast<int>(reach / c.dilation[i]) + 1);
    if (reach < 0) {
      throw helper
          .error(cat("output_size ", (*c.output_size)[i], " is smaller than ", extent.value(),
                     " with stride ", c.stride[i], " can make"))
          .fix("give a larger output_size, or a filter_size");
    }
  }
  return sizes;
}

void check_groups(const LayerHelper& helper, const Convolution& c, int64_t channels) {
  if (c.num_filters <= 0) {
    throw helper.error(cat("num_filters is ", c.num_filters, "; it must be at least 1"));
  }
  if (c.groups <= 0 || channels % c.groups != 0) {
    throw helper
        .error(
            cat("the input has ", channels, " channels, which ", c.groups, " groups do not divide"))
        .fix("choose groups that divide the number of channels");
  }
  if (c.num_filters % c.groups != 0) {
    throw helper.error(cat(c.num_filters, " filters cannot be shared by ", c.groups, " groups"))
        .fix("choose num_filters that groups divides");
  }
}

Var& convolve(Var& input, Convolution c) {
  const LayerHelper checks(c.type, c.type);
  checks.check_rank(input, "input", c.spatial() + 2);
  const bool channel_last = is_channel_last(checks, c.data_format, c.spatial());
  const int channel_axis = channel_last ? c.spatial() + 1 : 1;
  const Dim open = input.shape()[channel_axis];
  if (!open.known()) {
    throw checks.error(cat("the number of channels (dimension ", channel_axis, " of ", input.name(),
                           ") must be known"));
  }
  const int64_t channels = open.value();
  check_groups(checks, c, channels);
  if (c.type == "conv2d_transpose" && channels == c.groups && c.num_filters == channels &&
      !c.use_cudnn) {
    c.type = "depthwise_conv2d_transpose";
  }
  LayerHelper helper(c.type, c.name);
  const Paddings padding = resolve(helper, c.padding, c.spatial(), channel_last);
  const Ints filter_size =
      c.filter_size ? *c.filter_size : filter_for(helper, input, c, padding, channel_last);
  std::vector<int64_t> shape = {c.num_filters, channels / c.groups};
  if (c.transposed) shape = {channels, c.num_filters / c.groups};
  double elements = static_cast<double>(channels);
  for (int extent : filter_size) {
    shape.push_back(extent);
    elements *= extent;
  }
  ParameterRequest request = {.attr = c.param_attr, .shape = shape, .dtype = input.dtype()};
  if (!c.transposed) {
    request.default_initializer = initializer::normal(0, std::sqrt(2 / elements));
  }
  Var* filter = helper.create_parameter(request);
  if (!filter) throw helper.error(cat("param_attr is false, but ", c.type, " has a filter"));
  Attrs attrs = {{"strides", c.stride},         {"paddings", padding.ints},
                 {"dilations", c.dilation},     {"groups", c.groups},
                 {"use_cudnn", c.use_cudnn},    {"padding_algorithm", padding.algorithm},
                 {"data_format", c.data_format}};
  if (c.transposed) attrs["output_size"] = c.output_size.value_or(Ints{});
  // The original's conv3d_transpose takes the names of images for volumes, and no others.
  if (c.transposed && c.spatial() == 3) attrs["data_format"] = channel_last ? "NHWC" : "NCHW";
  Var& out = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op(c.type, {{"Input", input}, {"Filter", *filter}}, {{"Output", out}},
                   std::move(attrs));
  Var& biased = helper.append_bias_op(out, c.bias_attr, channel_axis, channel_axis + 1);
  return helper.append_activation(biased, c.act);
}

template <class T>
std::optional<Ints> ints_of(const std::optional<T>& given) {
  if (!given) return std::nullopt;
  return given->to_vector();
}

}  // namespace

Var& conv2d_transpose(Var& input, const Conv2dTransposeOptions& o, SourceLine line) {
  const LineScope scope(line);
  return convolve(input, {"conv2d_transpose", o.num_filters, ints_of(o.output_size),
                          ints_of(o.filter_size), o.padding, o.stride.to_vector(),
                          o.dilation.to_vector(), o.groups.value_or(1), o.param_attr, o.bias_attr,
                          o.use_cudnn, o.act, o.name, o.data_format, /*transposed=*/true});
}

Var& conv3d(Var& input, const Conv3dOptions& o, SourceLine line) {
  const LineScope scope(line);
  return convolve(input,
                  {"conv3d", o.num_filters, std::nullopt, o.filter_size.to_vector(), o.padding,
                   o.stride.to_vector(), o.dilation.to_vector(), o.groups.value_or(1), o.param_attr,
                   o.bias_attr, o.use_cudnn, o.act, o.name, o.data_format,
                   /*transposed=*/false});
}

Var& conv3d_transpose(Var& input, const Conv3dTransposeOptions& o, SourceLine line) {
  const LineScope scope(line);
  return convolve(input, {"conv3d_transpose", o.num_filters, ints_of(o.output_size),
                          ints_of(o.filter_size), o.padding, o.stride.to_vector(),
                          o.dilation.to_vector(), o.groups.value_or(1), o.param_attr, o.bias_attr,
                          o.use_cudnn, o.act, o.name, o.data_format, /*transposed=*/true});
}

}  // namespace trireme::layers
