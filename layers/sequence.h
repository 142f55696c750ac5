// Layers over sequences of unequal length (LoD).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

struct SequenceConvOptions {
  int num_filters = 0;
  int filter_size = 3;
  int filter_stride = 1;
  std::optional<int> padding_start = std::nullopt;  // none: -(filter_size / 2)
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  std::string act = {};
  std::string name = {};
};
Var& sequence_conv(Var& input, const SequenceConvOptions& options,
                   SourceLine line = SourceLine::here());

struct RowConvOptions {
  int future_context_size = 0;  // how many rows ahead a row sees
  ParamArg param_attr = {};
  std::string act = {};
};
Var& row_conv(Var& input, const RowConvOptions& options, SourceLine line = SourceLine::here());

struct SequencePoolOptions {
  bool is_test = false;
  double pad_value = 0;  // the result of an empty sequence
};
// pool_type: average, sum, sqrt, max, last, first.
Var& sequence_pool(Var& input, const std::string& pool_type,
                   const SequencePoolOptions& options = {}, SourceLine line = SourceLine::here());
Var& sequence_first_step(Var& input, SourceLine line = SourceLine::here());
Var& sequence_last_step(Var& input, SourceLine line = SourceLine::here());

struct SequenceSoftmaxOptions {
  bool use_cudnn = false;
  std::string name = {};
};
Var& sequence_softmax(Var& input, const SequenceSoftmaxOptions& options = {},
                      SourceLine line = SourceLine::here());

struct SequenceExpandOptions {
  int ref_level = -1;
  std::string name = {};
};
Var& sequence_expand(Var& x, Var& y, const SequenceExpandOptions& options = {},
                     SourceLine line = SourceLine::here());

struct DynamicLstmOptions {
  int64_t size = 0;  // four times the hidden size
  Var* h_0 = nullptr;
  Var* c_0 = nullptr;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  bool use_peepholes = true;
  bool is_reverse = false;
  std::string gate_activation = "sigmoid";
  std::string cell_activation = "tanh";
  std::string candidate_activation = "tanh";
  DType dtype = DType::float32;
  std::string name = {};
};
struct Lstm {
  Var& hidden;
  Var& cell;
};
Lstm dynamic_lstm(Var& input, const DynamicLstmOptions& options,
                  SourceLine line = SourceLine::here());

struct DynamicGruOptions {
  int64_t size = 0;  // the hidden size; the input has three times as many columns
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  bool is_reverse = false;
  std::string gate_activation = "sigmoid";
  std::string candidate_activation = "tanh";
  Var* h_0 = nullptr;
  bool origin_mode = false;
};
Var& dynamic_gru(Var& input, const DynamicGruOptions& options,
                 SourceLine line = SourceLine::here());

struct LstmOptions {
  int max_len = 0;  // accepted; changes no result
  int hidden_size = 0;
  int num_layers = 1;
  double dropout_prob = 0;  // between the layers
  bool is_bidirec = false;
  bool is_test = false;
  std::string name = {};
  std::shared_ptr<Initializer> default_initializer = nullptr;
  int seed = -1;
};
struct LstmStates {
  Var& out;  // [time, batch, directions * hidden]
  Var& last_h;
  Var& last_c;
};
// Layers of long short-term memory over [time, batch, width]; cudnn_lstm in
// ops/recurrent/cudnn_lstm.cc says how its one weight is laid out.
LstmStates lstm(Var& input, Var& init_h, Var& init_c, const LstmOptions& options,
                SourceLine line = SourceLine::here());

struct Im2SequenceOptions {
  Pair filter_size = 1;
  Pair stride = 1;
  std::vector<int> padding = {0};  // all, {vertical, horizontal}, or {up, left, down, right}
  Var* input_image_size = nullptr;
  Pair out_stride = 1;
  std::string name = {};
};
// The windows of every image, as a sequence.
Var& im2sequence(Var& input, const Im2SequenceOptions& options = {},
                 SourceLine line = SourceLine::here());

// The offsets come from y's LoD, or from y's values when it has none.
Var& lod_reset(Var& x, Var& y, SourceLine line = SourceLine::here());
Var& lod_reset(Var& x, const std::vector<int>& target_lod, SourceLine line = SourceLine::here());

}  // namespace trireme::layers
