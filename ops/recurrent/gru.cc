// gru: a gated recurrent unit over sequences whose input is already projected to the gates.
// The gates, r * h' and h are kept in the order of Input's rows; the gradient reads them.
#include "ops/recurrent/gru.h"

#include "ir/schema.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {

Dim gru_width(const OpView& op) {
  const Shape& x = op.in("Input").shape;
  const Shape& weight = op.in("Weight").shape;
  if (x.rank() != 2 || weight.rank() != 2) {
    throw op
        .error(cat("Input has shape ", x, " and Weight ", weight, " but both have two dimensions"))
        .fix("give Input [rows, 3 * D] and Weight [D, 3 * D]");
  }
  const Dim width = Dim::join(weight[0], x[1] / Dim(3));
  if (!weight[1].may_equal(width * Dim(3)) || !x[1].may_equal(width * Dim(3))) {
    throw op
        .error(cat("Weight ", weight, " and Input ", x, " do not fit: D is ", width,
                   ", so both need ", width * Dim(3), " columns"))
        .fix("project the input to 3 * D columns with fc(size=3 * D) and pass size=D");
  }
  if (op.has("Bias") && !op.in("Bias").shape.numel().may_equal(width * Dim(3))) {
    throw op
        .error(cat("Bias has shape ", op.in("Bias").shape, " but needs [1, ", width * Dim(3), "]"))
        .fix("give a bias of 3 * D elements");
  }
  return width;
}

namespace {

void gru_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  const Dim width = gru_width(op);
  const std::vector<int64_t>* offsets = sequence_offsets(op, "Input");
  const Dim sequences = offsets ? Dim(static_cast<int64_t>(offsets->size()) - 1) : Dim();
  if (op.has("H0") && !op.in("H0").shape.may_equal({sequences, width})) {
    throw op
        .error(cat("H0 has shape ", op.in("H0").shape, " but there are ", sequences,
                   " sequences of width ", width))
        .fix("give H0 one row of D numbers for every sequence");
  }
  for (const std::string slot : {"BatchGate", "BatchResetHiddenPrev", "BatchHidden", "Hidden"}) {
    op.set_out(slot, x.dtype, {x.shape[0], slot == "BatchGate" ? x.shape[1] : width});
    op.share_lod("Input", slot);
  }
}

OpSample gru_sample(Draw& draw, bool origin_mode, bool reverse) {
  OpSample sample;
  const int64_t width = draw.size(1, 3), sequences = draw.size(1, 3);
  sample.inputs["Input"] = {draw_sequences(draw, {3 * width}, {.sequences = sequences})};
  sample.inputs["Weight"] = {draw.uniform({width, 3 * width})};
  if (draw.coin()) sample.inputs["Bias"] = {draw.uniform({1, 3 * width})};
  if (draw.coin()) sample.inputs["H0"] = {draw.uniform({sequences, width})};
  sample.attrs["origin_mode"] = origin_mode;
  sample.attrs["is_reverse"] = reverse;
  return sample;
}

}  // namespace

void register_gru(Registry& ops) {
  ops.op("gru")
      .doc(
          "A gated recurrent unit over every sequence of Input, which is already projected to "
          "update gate, reset gate and candidate")
      .in("Input", "[rows, 3 * D] in sequences")
      .in_optional("H0", "[sequences, D]: the hidden state before the first step")
      .in("Weight", "[D, 3 * D] in memory: [D, 2 * D] for update and reset, then [D, D]")
      .in_optional("Bias", "[1, 3 * D]")
      .out_intermediate("BatchGate", "[rows, 3 * D]: update, reset, candidate after activation")
      .out_intermediate("BatchResetHiddenPrev", "[rows, D]: reset gate times the state before")
      .out_intermediate("BatchHidden", "[rows, D]: the same as Hidden")
      .out("Hidden", "[rows, D], the LoD of Input")
      .attr("activation", "tanh", "of the candidate")
      .one_of(activation_names())
      .attr("gate_activation", "sigmoid", "of the gates")
      .one_of(activation_names())
      .attr("is_reverse", false, "run every sequence from its end")
      .attr("origin_mode", false, "the update gate keeps the state before, as in the first paper")
      .shape(gru_shape)
      .grad({"Input", "H0", "Bias", "Weight", "BatchGate", "BatchResetHiddenPrev", "BatchHidden",
             "Hidden"})
      .sample([](Draw& draw) { return gru_sample(draw, false, false); })
      .sample([](Draw& draw) { return gru_sample(draw, true, false); })
      .sample([](Draw& draw) { return gru_sample(draw, false, true); });
}

}  // namespace trireme
