// Small compositions of layers: fluid.nets.
#pragma once

#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

struct ImgConvPoolOptions {
  int num_filters = 0;
  Pair filter_size = 1;
  Pair pool_size = -1;
  Pair pool_stride = 1;
  Padding pool_padding = 0;
  std::string pool_type = "max";
  bool global_pooling = false;
  Pair conv_stride = 1;
  Padding conv_padding = 0;
  Pair conv_dilation = 1;
  int conv_groups = 1;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  std::string act = {};
  bool use_cudnn = true;
};
Var& simple_img_conv_pool(Var& input, const ImgConvPoolOptions& options,
                          SourceLine line = SourceLine::here());

// One entry per convolution; a list of one serves all.
struct ImgConvGroupOptions {
  std::vector<int> conv_num_filter = {};
  Pair pool_size = -1;
  std::vector<int> conv_padding = {1};
  std::vector<int> conv_filter_size = {3};
  std::string conv_act = {};
  std::vector<ParamArg> param_attr = {ParamArg()};
  std::vector<bool> conv_with_batchnorm = {false};
  std::vector<double> conv_batchnorm_drop_rate = {0.0};
  Pair pool_stride = 1;
  std::string pool_type = "max";
  bool use_cudnn = true;
};
Var& img_conv_group(Var& input, const ImgConvGroupOptions& options,
                    SourceLine line = SourceLine::here());

struct SequenceConvPoolOptions {
  int num_filters = 0;
  int filter_size = 3;
  ParamArg param_attr = {};
  std::string act = "sigmoid";
  std::string pool_type = "max";
  ParamArg bias_attr = {};
};
Var& sequence_conv_pool(Var& input, const SequenceConvPoolOptions& options,
                        SourceLine line = SourceLine::here());

// a * sigmoid(b), where a and b are the halves of input along `dim`.
Var& glu(Var& input, int dim = -1, SourceLine line = SourceLine::here());

struct AttentionOptions {
  int num_heads = 1;
  double dropout_rate = 0;
};
Var& scaled_dot_product_attention(Var& queries, Var& keys, Var& values,
                                  const AttentionOptions& options = {},
                                  SourceLine line = SourceLine::here());

}  // namespace trireme::layers
