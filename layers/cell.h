// Recurrent cells made of small ops, and stacks of them over padded sequences: fluid.contrib's
// BasicLSTMUnit, BasicGRUUnit, basic_lstm and basic_gru.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

// An activation of the caller's; empty: the cell's own.
using Activation = std::function<Var&(Var&)>;

struct CellOptions {
  int64_t hidden_size = 0;
  ParamArg param_attr = {};
  ParamArg bias_attr = {};
  Activation gate_activation = {};  // empty: sigmoid
  Activation activation = {};       // empty: tanh
  double forget_bias = 1;           // of LSTM's: added to the forget gate
  DType dtype = DType::float32;
};

// One step of a cell. Its parameters are made at the first step, which tells the input's width;
// later steps use the same ones.
class CellUnit {
 public:
  virtual ~CellUnit() = default;
  // New states from the input [batch, width] and the states before, [batch, hidden_size] each. The
  // first is the output.
  std::vector<Var*> step(Var& input, const std::vector<Var*>& states,
                         SourceLine line = SourceLine::here());
  int64_t hidden_size() const { return options_.hidden_size; }
  virtual size_t states() const = 0;

 protected:
  CellUnit(const std::string& name, const std::string& kind, CellOptions options,
           const SourceLine& line);
  virtual void make_parameters(int64_t input_width) = 0;
  virtual std::vector<Var*> compute(Var& input, const std::vector<Var*>& states) = 0;
  Var* parameter(const ParamArg& attr, std::vector<int64_t> shape, bool is_bias) const;
  Var& affine(Var& x, Var& weight, Var* bias) const;
  Var& gate(Var& x) const;
  Var& activate(Var& x) const;

  CellOptions options_;
  std::string name_;
  bool made_ = false;
};

// States: hidden, cell. One weight [width + hidden, 4 * hidden]: input, candidate, forget, output.
class BasicLstmUnit : public CellUnit {
 public:
  explicit BasicLstmUnit(const std::string& name, CellOptions options,
                         SourceLine line = SourceLine::here());
  size_t states() const override { return 2; }

 private:
  void make_parameters(int64_t input_width) override;
  std::vector<Var*> compute(Var& input, const std::vector<Var*>& states) override;
  Var* weight_ = nullptr;
  Var* bias_ = nullptr;
};

// State: hidden. A weight for the gates reset and update, and one for the candidate.
class BasicGruUnit : public CellUnit {
 public:
  explicit BasicGruUnit(const std::string& name, CellOptions options,
                        SourceLine line = SourceLine::here());
  size_t states() const override { return 1; }

 private:
  void make_parameters(int64_t input_width) override;
  std::vector<Var*> compute(Var& input, const std::vector<Var*>& states) override;
  Var *gate_weight_ = nullptr, *candidate_weight_ = nullptr;
  Var *gate_bias_ = nullptr, *candidate_bias_ = nullptr;
};

struct BasicRnnOptions {
  CellOptions cell = {};
  int num_layers = 1;
  Var* sequence_length = nullptr;  // [batch]: steps beyond keep the states
  double dropout_prob = 0;         // after each layer
  bool bidirectional = false;
  bool batch_first = true;  // input and output are [batch, time, width], else [time, batch, width]
  std::string name = {};    // empty: basic_lstm or basic_gru
};
struct BasicRnn {
  Var& out;                // as wide as the hidden state, twice that for both directions
  std::vector<Var*> last;  // of each state: [layers * directions, batch, hidden]
};
// Initial states: [layers * directions, batch, hidden]; null: zeros.
BasicRnn basic_lstm(Var& input, Var* init_hidden, Var* init_cell, const BasicRnnOptions& options,
                    SourceLine line = SourceLine::here());
BasicRnn basic_gru(Var& input, Var* init_hidden, const BasicRnnOptions& options,
                   SourceLine line = SourceLine::here());

}  // namespace trireme::layers
