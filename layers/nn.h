// Layers with parameters, and those that go with them: fc, embedding, convolution, normalisation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

struct FcOptions {
  int64_t size = 0;
  int num_flatten_dims = 1;  // the first so many dimensions stay; -1: all but the last
  ParamArgs param_attr = {};
  ParamArg bias_attr = {};
  std::string act = {};
  std::string name = {};
};
// One mul per input, their sum, bias, activation.
Var& fc(const Vars& input, const FcOptions& options, SourceLine line = SourceLine::here());

struct BilinearOptions {
  int64_t size = 0;
  std::string act = {};
  std::string name = {};
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
};
// x weight[k] y^T + bias[k], for k below size.
Var& bilinear_tensor_product(Var& x, Var& y, const BilinearOptions& options,
                             SourceLine line = SourceLine::here());

struct EmbeddingOptions {
  std::vector<int64_t> size = {};  // rows, columns
  bool is_sparse = false;          // the table's gradient is SelectedRows
  bool is_distributed = false;
  std::optional<int64_t> padding_idx =
      std::nullopt;  // reads as zeros; negative counts from the end
  ParamArg param_attr = {};
  DType dtype = DType::float32;
  std::string name = {};
};
// fluid.layers.embedding (lookup_table): ids end in a dimension of 1, which the result drops.
Var& embedding(Var& ids, const EmbeddingOptions& options, SourceLine line = SourceLine::here());
// fluid.embedding and static.nn.embedding (lookup_table_v2): ids of any shape.
Var& embedding_v2(Var& ids, const EmbeddingOptions& options, SourceLine line = SourceLine::here());
// A table whose rows parameter servers may hold: sparse and distributed, ids of either form.
Var& sparse_embedding(Var& ids, EmbeddingOptions options, SourceLine line = SourceLine::here());

struct Conv2dOptions {
  int num_filters = 0;
  Pair filter_size = 1;
  Pair stride = 1;
  Padding padding = 0;
  Pair dilation = 1;
  std::optional<int> groups = std::nullopt;
  ParamArg param_attr = {};  // default Normal(0, sqrt(2 / (h * w * channels)))
  ParamArg bias_attr = {};
  bool use_cudnn = true;  // false and groups = channels: depthwise_conv2d
  std::string act = {};
  std::string name = {};
  std::string data_format = "NCHW";
};
Var& conv2d(Var& input, const Conv2dOptions& options, SourceLine line = SourceLine::here());

struct Pool2dOptions {
  Pair pool_size = -1;
  std::string pool_type = "max";
  Pair pool_stride = 1;
  Padding pool_padding = 0;
  bool global_pooling = false;
  bool use_cudnn = true;
  bool ceil_mode = false;
  bool exclusive = true;
  std::string name = {};
  std::string data_format = "NCHW";
};
Var& pool2d(Var& input, const Pool2dOptions& options, SourceLine line = SourceLine::here());

struct BatchNormOptions {
  std::string act = {};
  bool is_test = false;
  double momentum = 0.9;
  Var* momentum_tensor = nullptr;  // read instead of `momentum`
  double epsilon = 1e-5;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  std::string data_layout = "NCHW";
  bool in_place = false;
  std::string name = {};
  std::string moving_mean_name = {};
  std::string moving_variance_name = {};
  bool do_model_average_for_mean_and_var = true;
  bool use_global_stats = false;
};
Var& batch_norm(Var& input, const BatchNormOptions& options = {},
                SourceLine line = SourceLine::here());

struct InplaceAbnOptions {
  BatchNormOptions norm = {};  // act: identity, leaky_relu or elu; in_place has no effect
  double act_alpha = 1;
};
// batch_norm and an activation that can be undone: the result takes the input's place.
Var& inplace_abn(Var& input, const InplaceAbnOptions& options = {},
                 SourceLine line = SourceLine::here());

// act(batch_norm(x) + y) in one op. The channels are the last dimension, and act is relu.
Var& fused_bn_add_act(Var& x, Var& y, const BatchNormOptions& options,
                      SourceLine line = SourceLine::here());

struct DataNormOptions {
  std::string act = {};
  double epsilon = 1e-5;
  // What the statistics are before any data was seen.
  double batch_size = 1e4;
  double batch_sum = 0;
  double batch_square = 1e4;
  double scale_w = 1;  // with enable_scale_and_shift
  double bias = 0;
  std::string data_layout = "NCHW";
  bool in_place = false;
  std::string name = {};  // empty: dn, so two unnamed ones share their statistics
  int slot_dim = -1;
  bool sync_stats = false;
  double summary_decay_rate = 0.9999999;
  bool enable_scale_and_shift = false;
};
Var& data_norm(Var& input, const DataNormOptions& options = {},
               SourceLine line = SourceLine::here());

struct LayerNormOptions {
  bool scale = true;
  bool shift = true;
  int begin_norm_axis = 1;
  double epsilon = 1e-5;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  std::string act = {};
  std::string name = {};
};
Var& layer_norm(Var& input, const LayerNormOptions& options = {},
                SourceLine line = SourceLine::here());

struct DropoutOptions {
  double dropout_prob = 0.5;
  bool is_test = false;
  std::optional<int> seed = std::nullopt;
  std::string name = {};
  std::string dropout_implementation = "downgrade_in_infer";  // or upscale_in_train
};
Var& dropout(Var& x, const DropoutOptions& options, SourceLine line = SourceLine::here());

struct SoftmaxOptions {
  bool use_cudnn = false;
  int axis = -1;
  std::string name = {};
};
Var& softmax(Var& input, const SoftmaxOptions& options = {}, SourceLine line = SourceLine::here());

struct OneHotOptions {
  Extent depth = -1;
  bool allow_out_of_range = false;
};
Var& one_hot(Var& input, const OneHotOptions& options, SourceLine line = SourceLine::here());
Var& one_hot_v2(Var& input, const OneHotOptions& options, SourceLine line = SourceLine::here());

struct TopK {
  Var& values;
  Var& indices;
};
TopK topk(Var& input, const Extent& k, const std::string& name = {},
          SourceLine line = SourceLine::here());

}  // namespace trireme::layers
