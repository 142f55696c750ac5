// fluid.nets: compositions of layers.
#include "layers/nets.h"

#include <cmath>

#include "core/text.h"
#include "layers/layer_helper.h"
#include "layers/nn.h"
#include "layers/ops.h"
#include "layers/sequence.h"
#include "layers/tensor.h"

namespace trireme::layers {
namespace {

Error net_error(const char* net, std::string message) {
  Error error(std::move(message));
  error.in(net).at(user_line());
  return error;
}

template <class T>
T entry(const std::vector<T>& list, size_t i, size_t wanted, const char* argument) {
  if (list.size() == 1) return list.front();
  if (list.size() == wanted) return list[i];
  throw net_error("img_conv_group",
                  cat(argument, " has ", list.size(), " entries for ", wanted, " convolutions"))
      .fix("give one for all, or one for each");
}

}  // namespace

Var& simple_img_conv_pool(Var& input, const ImgConvPoolOptions& options, SourceLine line) {
  const LineScope scope(line);
  Var& conv = conv2d(input, {.num_filters = options.num_filters,
                             .filter_size = options.filter_size,
                             .stride = options.conv_stride,
                             .padding = options.conv_padding,
                             .dilation = options.conv_dilation,
                             .groups = options.conv_groups,
                             .param_attr = options.param_attr,
                             .bias_attr = options.bias_attr,
                             .use_cudnn = options.use_cudnn,
                             .act = options.act});
  return pool2d(conv, {.pool_size = options.pool_size,
                       .pool_type = options.pool_type,
                       .pool_stride = options.pool_stride,
                       .pool_padding = options.pool_padding,
                       .global_pooling = options.global_pooling,
                       .use_cudnn = options.use_cudnn});
}

Var& img_conv_group(Var& input, const ImgConvGroupOptions& options, SourceLine line) {
  const LineScope scope(line);
  const size_t count = options.conv_num_filter.size();
  if (count == 0) throw net_error("img_conv_group", "conv_num_filter is empty");
  Var* x = &input;
  for (size_t i = 0; i < count; ++i) {
    const bool norm = entry<bool>(options.conv_with_batchnorm, i, count, "conv_with_batchnorm");
    const double drop =
        entry(options.conv_batchnorm_drop_rate, i, count, "conv_batchnorm_drop_rate");
    // The activation belongs behind the normalisation.
    x = &conv2d(*x, {.num_filters = options.conv_num_filter[i],
                     .filter_size = entry(options.conv_filter_size, i, count, "conv_filter_size"),
                     .padding = entry(options.conv_padding, i, count, "conv_padding"),
                     .param_attr = entry(options.param_attr, i, count, "param_attr"),
                     .use_cudnn = options.use_cudnn,
                     .act = norm ? std::string() : options.conv_act});
    if (!norm) continue;
    x = &batch_norm(*x, {.act = options.conv_act});
    if (std::abs(drop) > 1e-5) x = &dropout(*x, {.dropout_prob = drop});
  }
  return pool2d(*x, {.pool_size = options.pool_size,
                     .pool_type = options.pool_type,
                     .pool_stride = options.pool_stride,
                     .use_cudnn = options.use_cudnn});
}

Var& sequence_conv_pool(Var& input, const SequenceConvPoolOptions& options, SourceLine line) {
  const LineScope scope(line);
  Var& conv = sequence_conv(input, {.num_filters = options.num_filters,
                                    .filter_size = options.filter_size,
                                    .param_attr = options.param_attr,
                                    .bias_attr = options.bias_attr,
                                    .act = options.act});
  return sequence_pool(conv, options.pool_type);
}

Var& glu(Var& input, int dim, SourceLine line) {
  const LineScope scope(line);
  const std::vector<Var*> halves = split(input, 2, dim);
  return elementwise_mul(*halves[0], sigmoid(*halves[1]));
}

namespace {

// [batch, length, heads * width] -> [batch, heads, length, width]
Var& split_heads(Var& x, int heads) {
  if (heads == 1) return x;
  const int64_t width = x.shape().at(2);
  return transpose(reshape(x, {0, 0, heads, width / heads}), {0, 2, 1, 3});
}

Var& join_heads(Var& x) {
  if (x.shape().rank() == 3) return x;
  Var& swapped = transpose(x, {0, 2, 1, 3});
  return reshape(swapped, {0, 0, swapped.shape().at(2) * swapped.shape().at(3)});
}

}  // namespace

Var& scaled_dot_product_attention(Var& queries, Var& keys, Var& values,
                                  const AttentionOptions& options, SourceLine line) {
  const LineScope scope(line);
  constexpr const char* kNet = "scaled_dot_product_attention";
  for (const Var* x : {&queries, &keys, &values}) {
    if (x->shape().rank() == 3 && x->shape()[2].known()) continue;
    Error wrong =
        net_error(kNet, cat(x->name(), " must be [batch, length, width] with a known width"));
    throw wrong.operand(cat(x->name(), "   ", x->describe()));
  }
  if (!(queries.shape()[2] == keys.shape()[2])) {
    throw net_error(kNet, cat("queries have ", queries.shape()[2], " columns and keys ",
                              keys.shape()[2], "; they must be equal"));
  }
  if (!keys.shape()[1].may_equal(values.shape()[1])) {
    throw net_error(kNet, cat("there are ", keys.shape()[1], " keys and ", values.shape()[1],
                              " values in a sequence; they must be as many"));
  }
  const int heads = options.num_heads;
  if (heads < 1 || keys.shape().at(2) % heads != 0 || values.shape().at(2) % heads != 0) {
    throw net_error(kNet, cat("num_heads is ", heads, ", which must divide ", keys.shape()[2],
                              " and ", values.shape()[2]));
  }
  // Several heads look through projections of their own; one head looks directly.
  const auto project = [&](Var& x) -> Var& {
    return heads == 1 ? x : fc(x, {.size = x.shape().at(2), .num_flatten_dims = 2});
  };
  Var& q_projected = project(queries);
  Var& k_projected = project(keys);
  Var& v_projected = project(values);
  Var& q = split_heads(q_projected, heads);
  Var& k = split_heads(k_projected, heads);
  Var& v = split_heads(v_projected, heads);
  const double width = static_cast<double>(keys.shape().at(2)) / heads;
  Var& products = matmul(scale(q, {.scale = std::pow(width, -0.5)}), k, {.transpose_y = true});
  Var* weights = &softmax(products);
  if (options.dropout_rate != 0)
    weights = &dropout(*weights, {.dropout_prob = options.dropout_rate});
  return join_heads(matmul(*weights, v));
}

}  // namespace trireme::layers
