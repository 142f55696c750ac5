// The steps of BasicLstmUnit and BasicGruUnit.
#include "layers/cell.h"

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layer_helper.h"
#include "layers/math_op.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme::layers {

CellUnit::CellUnit(const std::string& name, const std::string& kind, CellOptions options,
                   const SourceLine& line)
    : options_(std::move(options)), name_(unique_names().generate(cat(name, "/", kind))) {
  const LineScope scope(line);
  if (options_.hidden_size < 1) {
    throw LayerHelper(kind, name_)
        .error(cat("hidden_size is ", options_.hidden_size, "; it must be at least 1"));
  }
}

std::vector<Var*> CellUnit::step(Var& input, const std::vector<Var*>& before, SourceLine line) {
  const LineScope scope(line);
  const LayerHelper helper("rnn_cell", name_);
  if (before.size() != states()) {
    throw helper.error(cat("the cell has ", states(), " states but ", before.size(), " are given"));
  }
  if (!made_) {
    const int rank = input.shape().rank();
    if (rank < 1 || !input.shape()[rank - 1].known()) {
      throw helper.error(cat("input ", input.name(), " has shape ", input.shape()))
          .fix("its last dimension must be known: the weight's shape follows from it");
    }
    make_parameters(input.shape()[rank - 1].value());
    made_ = true;
  }
  return compute(input, before);
}

Var* CellUnit::parameter(const ParamArg& attr, std::vector<int64_t> shape, bool is_bias) const {
  return LayerHelper("rnn_cell", name_)
      .create_parameter(
          {.attr = attr, .shape = std::move(shape), .dtype = options_.dtype, .is_bias = is_bias});
}

Var& CellUnit::affine(Var& x, Var& weight, Var* bias) const {
  Var& product = matmul(x, weight);
  return bias ? elementwise_add(product, *bias) : product;
}

Var& CellUnit::gate(Var& x) const {
  return options_.gate_activation ? options_.gate_activation(x) : sigmoid(x);
}

Var& CellUnit::activate(Var& x) const {
  return options_.activation ? options_.activation(x) : tanh(x);
}

BasicLstmUnit::BasicLstmUnit(const std::string& name, CellOptions options, SourceLine line)
    : CellUnit(name, "BasicLSTMUnit", std::move(options), line) {}

void BasicLstmUnit::make_parameters(int64_t input_width) {
  const int64_t hidden = options_.hidden_size;
  weight_ = parameter(options_.param_attr, {input_width + hidden, 4 * hidden}, false);
  bias_ = parameter(options_.bias_attr, {4 * hidden}, true);
  if (!weight_) throw LayerHelper("rnn_cell", name_).error("param_attr is false");
}

std::vector<Var*> BasicLstmUnit::compute(Var& input, const std::vector<Var*>& states) {
  Var &hidden = *states[0], &cell = *states[1];
  Var& gates = affine(concat({input, hidden}, 1), *weight_, bias_);
  const std::vector<Var*> parts = split(gates, 4, -1);
  Var &in = *parts[0], &candidate = *parts[1], &forget = *parts[2], &out = *parts[3];
  Var& kept = elementwise_mul(cell, gate(forget + options_.forget_bias));
  Var& new_cell = elementwise_add(kept, elementwise_mul(gate(in), activate(candidate)));
  Var& new_hidden = elementwise_mul(activate(new_cell), gate(out));
  return {&new_hidden, &new_cell};
}

namespace {

// A name that the user gave stands for two parameters.
ParamArg named_part(const ParamArg& arg, const char* part) {
  if (!arg.wanted() || arg.attr().name.empty()) return arg;
  ParamAttr attr = arg.attr();
  attr.name += part;
  return attr;
}

}  // namespace

BasicGruUnit::BasicGruUnit(const std::string& name, CellOptions options, SourceLine line)
    : CellUnit(name, "BasicGRUUnit", std::move(options), line) {}

void BasicGruUnit::make_parameters(int64_t input_width) {
  const int64_t hidden = options_.hidden_size;
  const ParamArg &weight = options_.param_attr, &bias = options_.bias_attr;
  gate_weight_ = parameter(named_part(weight, "_gate"), {input_width + hidden, 2 * hidden}, false);
  candidate_weight_ =
      parameter(named_part(weight, "_candidate"), {input_width + hidden, hidden}, false);
  gate_bias_ = parameter(named_part(bias, "_gate"), {2 * hidden}, true);
  candidate_bias_ = parameter(named_part(bias, "_candidate"), {hidden}, true);
  if (!gate_weight_) throw LayerHelper("rnn_cell", name_).error("param_attr is false");
}

std::vector<Var*> BasicGruUnit::compute(Var& input, const std::vector<Var*>& states) {
  Var& hidden = *states[0];
  Var& gates = gate(affine(concat({input, hidden}, 1), *gate_weight_, gate_bias_));
  const std::vector<Var*> parts = split(gates, 2, 1);
  Var &reset = *parts[0], &update = *parts[1];
  Var& kept = elementwise_mul(reset, hidden);
  Var& candidate = activate(affine(concat({input, kept}, 1), *candidate_weight_, candidate_bias_));
  return {
      &elementwise_add(elementwise_mul(update, hidden), elementwise_mul(1.0 - update, candidate))};
}

}  // namespace trireme::layers
