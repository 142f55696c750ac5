// Convolutions beyond conv2d: transposed ones, and those over volumes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

// One number per spatial dimension, or one for all: `.stride = 2`, `.stride = {1, 2, 2}`.
class Extent3 {
 public:
  Extent3(int all) : ints_{all, all, all} {}
  Extent3(int depth, int height, int width) : ints_{depth, height, width} {}
  const std::vector<int>& to_vector() const { return ints_; }

 private:
  std::vector<int> ints_;
};

struct Conv2dTransposeOptions {
  int num_filters = 0;
  std::optional<Pair> output_size = std::nullopt;
  std::optional<Pair> filter_size = std::nullopt;  // none: what output_size asks for
  Padding padding = 0;
  Pair stride = 1;
  Pair dilation = 1;
  std::optional<int> groups = std::nullopt;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  bool use_cudnn = true;  // false and groups = channels = filters: depthwise_conv2d_transpose
  std::string act = {};
  std::string name = {};
  std::string data_format = "NCHW";
};
Var& conv2d_transpose(Var& input, const Conv2dTransposeOptions& options,
                      SourceLine line = SourceLine::here());

struct Conv3dOptions {
  int num_filters = 0;
  Extent3 filter_size = 1;
  Extent3 stride = 1;
  Padding padding = 0;
  Extent3 dilation = 1;
  std::optional<int> groups = std::nullopt;
  ParamArg param_attr = {};  // default Normal(0, sqrt(2 / (d * h * w * channels)))
  ParamArg bias_attr = {};
  bool use_cudnn = true;
  std::string act = {};
  std::string name = {};
  std::string data_format = "NCDHW";
};
Var& conv3d(Var& input, const Conv3dOptions& options, SourceLine line = SourceLine::here());

struct Conv3dTransposeOptions {
  int num_filters = 0;
  std::optional<Extent3> output_size = std::nullopt;
  std::optional<Extent3> filter_size = std::nullopt;  // none: what output_size asks for
  Padding padding = 0;
  Extent3 stride = 1;
  Extent3 dilation = 1;
  std::optional<int> groups = std::nullopt;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  bool use_cudnn = true;
  std::string act = {};
  std::string name = {};
  std::string data_format = "NCDHW";
};
Var& conv3d_transpose(Var& input, const Conv3dTransposeOptions& options,
                      SourceLine line = SourceLine::here());

}  // namespace trireme::layers
