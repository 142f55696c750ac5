// gru_unit: one step of a gated recurrent unit, without sequences.
#include "ir/schema.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/recurrent_rules.h"

namespace trireme {
namespace {

void unit_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  const Dim width = gru_width(op);
  const Shape state = {x.shape[0], width};
  if (!op.in("HiddenPrev").shape.may_equal(state)) {
    throw op
        .error(cat("HiddenPrev has shape ", op.in("HiddenPrev").shape, " but Input ", x.shape,
                   " asks for ", state))
        .fix("give one previous hidden state of width D for every row of Input");
  }
  activation_of(op, op.attr<int>("activation"));
  activation_of(op, op.attr<int>("gate_activation"));
  op.set_out("Gate", x.dtype, x.shape);
  op.set_out("ResetHiddenPrev", x.dtype, state);
  op.set_out("Hidden", x.dtype, state);
}

OpSample unit_sample(Draw& draw) {
  OpSample sample;
  const int64_t width = draw.size(1, 3), rows = draw.size(1, 4);
  sample.inputs["Input"] = {draw.uniform({rows, 3 * width})};
  sample.inputs["HiddenPrev"] = {draw.uniform({rows, width})};
  sample.inputs["Weight"] = {draw.uniform({width, 3 * width})};
  if (draw.coin()) sample.inputs["Bias"] = {draw.uniform({1, 3 * width})};
  sample.attrs["origin_mode"] = draw.coin();
  return sample;
}

}  // namespace

void register_gru_unit(Registry& ops) {
  ops.op("gru_unit")
      .doc("One step of a gated recurrent unit")
      .in("Input", "[rows, 3 * D]")
      .in("HiddenPrev", "[rows, D]")
      .in("Weight", "[D, 3 * D] in memory: [D, 2 * D] for update and reset, then [D, D]")
      .in_optional("Bias", "[1, 3 * D]")
      .out_intermediate("Gate", "[rows, 3 * D]: update, reset, candidate after activation")
      .out_intermediate("ResetHiddenPrev", "[rows, D]: reset gate times the state before")
      .out("Hidden", "[rows, D]")
      .attr("activation", 2, "of the candidate: 0 identity, 1 sigmoid, 2 tanh, 3 relu")
      .attr("gate_activation", 1, "of the gates: 0 identity, 1 sigmoid, 2 tanh, 3 relu")
      .attr("origin_mode", false, "the update gate keeps the state before, as in the first paper")
      .shape(unit_shape)
      .grad({"Input", "HiddenPrev", "Weight", "Bias", "Gate", "ResetHiddenPrev"})
      .sample(unit_sample);
}

}  // namespace trireme
