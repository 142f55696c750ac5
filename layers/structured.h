// Layers over labels with structure: conditional random fields, many classes, recurrent steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

struct LinearChainCrfOptions {
  ParamArg param_attr = {};  // the transitions, [tags + 2, tags]
  Var* length = nullptr;     // given: input is padded, [batch, time, tags]
};
// The negative log likelihood of each sequence's labels.
Var& linear_chain_crf(Var& input, Var& label, const LinearChainCrfOptions& options = {},
                      SourceLine line = SourceLine::here());

struct CrfDecodingOptions {
  std::string transition = {};  // the name that linear_chain_crf's param_attr had
  Var* label = nullptr;         // given: where the best path agrees with it
  Var* length = nullptr;
};
Var& crf_decoding(Var& input, const CrfDecodingOptions& options,
                  SourceLine line = SourceLine::here());

struct NceOptions {
  int num_total_classes = 0;
  Var* sample_weight = nullptr;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  int num_neg_samples = 10;
  std::string name = {};
  std::string sampler = "uniform";       // uniform, log_uniform, custom_dist
  std::vector<double> custom_dist = {};  // how likely each class is drawn, for custom_dist
  int seed = 0;
  bool is_sparse = false;
};
// The cost of each row, divided by 1 + num_neg_samples.
Var& nce(Var& input, Var& label, const NceOptions& options, SourceLine line = SourceLine::here());

struct HsigmoidOptions {
  int num_classes = 0;  // with paths: the number of their nodes
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  std::string name = {};
  Var* path_table = nullptr;  // both, with is_custom: a tree of one's own
  Var* path_code = nullptr;
  bool is_custom = false;
  bool is_sparse = false;
};
Var& hsigmoid(Var& input, Var& label, const HsigmoidOptions& options,
              SourceLine line = SourceLine::here());

struct GruUnitOptions {
  int64_t size = 0;  // three times the hidden size
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  std::string activation = "tanh";
  std::string gate_activation = "sigmoid";
  bool origin_mode = false;
};
struct GruStep {
  Var& hidden;
  Var& reset_hidden_previous;
  Var& gate;
};
GruStep gru_unit(Var& input, Var& hidden, const GruUnitOptions& options,
                 SourceLine line = SourceLine::here());

struct LstmUnitOptions {
  double forget_bias = 0;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  std::string name = {};
};
struct LstmStep {
  Var& hidden;
  Var& cell;
};
// One step of an LSTM: fc over x_t and the hidden state, then the gates input, forget, output and
// candidate.
LstmStep lstm_unit(Var& x_t, Var& hidden_t_prev, Var& cell_t_prev,
                   const LstmUnitOptions& options = {}, SourceLine line = SourceLine::here());

struct DynamicLstmpOptions {
  int64_t size = 0;  // four times the hidden size
  int64_t proj_size = 0;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  bool use_peepholes = true;
  bool is_reverse = false;
  std::string gate_activation = "sigmoid";
  std::string cell_activation = "tanh";
  std::string candidate_activation = "tanh";
  std::string proj_activation = "tanh";
  DType dtype = DType::float32;
  std::string name = {};
  Var* h_0 = nullptr;
  Var* c_0 = nullptr;
  std::optional<double> cell_clip = std::nullopt;
  std::optional<double> proj_clip = std::nullopt;
};
struct Lstmp {
  Var& projection;
  Var& cell;
};
Lstmp dynamic_lstmp(Var& input, const DynamicLstmpOptions& options,
                    SourceLine line = SourceLine::here());

}  // namespace trireme::layers
