// lstm: a long short-term memory over sequences whose input is already projected to the gates; and
// lstmp, whose hidden state is projected to a narrower one ("the state") on its way to the next
// step. In an lstm hidden state and state are one.
//
// BatchGate keeps the gates after activation, BatchCellPreAct the activated cell and lstmp's
// BatchHidden the hidden state before projection, in the order of Input's rows; the gradient reads
// them.
#include "ops/recurrent/lstm.h"
#include "ir/schema.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

struct LstmWidths {
  Dim width, state;  // D, and P: the width of the state
};

LstmWidths widths_of(const OpView& op) {
  const Shape &x = op.in("Input").shape, &weight = op.in("Weight").shape;
  const bool projected = LstmSlots(op).projected;
  const Shape projection = projected ? op.in("ProjWeight").shape : Shape{};
  const char* fix = projected ? "give Input [rows, 4 * D], Weight [P, 4 * D] and ProjWeight [D, P]"
                              : "project the input to 4 * D columns with fc(size=4 * D) and pass "
                                "size=4 * D: Input is [rows, 4 * D] and Weight [D, 4 * D]";
  if (x.rank() != 2 || weight.rank() != 2 || (projected && projection.rank() != 2)) {
    throw op
        .error(cat("Input has shape ", x, ", Weight ", weight,
                   projected ? cat(" and ProjWeight ", projection) : std::string(),
                   " but all have two dimensions"))
        .fix(fix);
  }
  const Dim joined = projected ? Dim() : Dim::join(weight[0], x[1] / Dim(4));
  const LstmWidths found =
      projected ? LstmWidths{projection[0], projection[1]} : LstmWidths{joined, joined};
  const Dim gates = found.width * Dim(4);
  if (!weight.may_equal({found.state, gates}) || !x[1].may_equal(gates)) {
    throw op
        .error(cat("Weight ", weight, " and Input ", x, " do not fit: D is ", found.width,
                   projected ? cat(" and P is ", found.state, " by ProjWeight ", projection)
                             : std::string(),
                   ", so both need ", gates, " columns"))
        .fix(fix);
  }
  return found;
}

void lstm_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  const std::vector<int64_t>* offsets = sequence_offsets(op, "Input");
  const LstmSlots slots(op);
  const auto [width, state] = widths_of(op);
  const bool peephole = op.attr<bool>("use_peepholes");
  const Shape& bias = op.in("Bias").shape;
  const Dim biases = width * Dim(peephole ? 7 : 4);
  if (!bias.numel().may_equal(biases)) {
    throw op
        .error(cat("Bias has shape ", bias, " but use_peepholes=", peephole ? "True" : "False",
                   " needs [1, ", biases, "]"))
        .fix("give a bias of 4 * D, or with peepholes of 7 * D, elements");
  }
  const Dim sequences = offsets ? Dim(static_cast<int64_t>(offsets->size()) - 1) : Dim();
  for (const std::string slot : {"H0", "C0"}) {
    const Dim wide = slot == "H0" ? state : width;
    if (op.has(slot) && !op.in(slot).shape.may_equal({sequences, wide})) {
      throw op
          .error(cat(slot, " has shape ", op.in(slot).shape, " but there are ", sequences,
                     " sequences of width ", wide))
          .fix(cat("give ", slot, " one row of ", wide, " numbers for every sequence"));
    }
  }
  for (const std::string slot :
       {slots.hidden, slots.state, "Cell", "BatchGate", "BatchCellPreAct"}) {
    const Dim wide = slot == slots.state ? state : slot == "BatchGate" ? x.shape[1] : width;
    op.set_out(slot, x.dtype, {x.shape[0], wide});
    op.share_lod("Input", slot);
  }
}

// lstmp's gradient does not read Input; what it gives is shaped after the gates, which are as wide.
void lstmp_grad_shape(OpView& op) {
  op.set_out_like("Input@GRAD", op.in("BatchGate"));
  for (const std::string slot : {"Weight", "ProjWeight", "Bias", "H0", "C0"}) {
    if (op.has(slot)) op.set_out_like(slot + "@GRAD", op.in(slot));
  }
}

OpSample lstm_sample(Draw& draw, bool projected, bool peephole, bool reverse) {
  OpSample sample;
  const int64_t width = draw.size(1, 3), sequences = draw.size(1, 3);
  const int64_t state = projected ? draw.size(1, 3) : width;
  sample.inputs["Input"] = {draw_sequences(draw, {4 * width}, {.sequences = sequences})};
  sample.inputs["Weight"] = {draw.uniform({state, 4 * width})};
  if (projected) sample.inputs["ProjWeight"] = {draw.uniform({width, state})};
  sample.inputs["Bias"] = {draw.uniform({1, (peephole ? 7 : 4) * width})};
  if (draw.coin()) {
    sample.inputs["H0"] = {draw.uniform({sequences, state})};
    sample.inputs["C0"] = {draw.uniform({sequences, width})};
  }
  sample.attrs["use_peepholes"] = peephole;
  sample.attrs["is_reverse"] = reverse;
  if (draw.coin()) sample.attrs["candidate_activation"] = std::string("identity");
  return sample;
}

// What the rows share once they have their own slots.
OpSchema& add_recurrence(OpSchema& row) {
  return row.attr("use_peepholes", true, "the gates also see the cell")
      .attr("is_reverse", false, "run every sequence from its end")
      .attr("gate_activation", "sigmoid", "of the three gates")
      .one_of(activation_names())
      .attr("cell_activation", "tanh", "of the cell on its way to the hidden state")
      .one_of(activation_names())
      .attr("candidate_activation", "tanh", "of the candidate")
      .one_of(activation_names())
      .shape(lstm_shape)
      .grad_outs_if_any({"Cell"});
}

constexpr const char* kInput = "[rows, 4 * D] in sequences: candidate, input, forget, output";
constexpr const char* kBias = "[1, 4 * D], with peepholes [1, 7 * D]: then W_ic, W_fc, W_oc follow";
constexpr const char* kCell0 = "[sequences, D]: the cell before the first step";
constexpr const char* kCell = "[rows, D], the LoD of Input";
constexpr const char* kGate = "[rows, 4 * D]: the gates after activation";
constexpr const char* kActive = "[rows, D]: the cell after its activation";

}  // namespace

void register_lstm(Registry& ops) {
  add_recurrence(
      ops.op("lstm")
          .doc("A long short-term memory over every sequence of Input, which is already projected "
               "to the four gates")
          .in("Input", kInput)
          .in_optional("H0", "[sequences, D]: the hidden state before the first step")
          .in_optional("C0", kCell0)
          .in("Weight", "[D, 4 * D], from the hidden state to the gates")
          .in("Bias", kBias)
          .out("Hidden", "[rows, D], the LoD of Input")
          .out("Cell", kCell)
          .out_intermediate("BatchGate", kGate)
          .out_intermediate("BatchCellPreAct", kActive)
          .grad({"Input", "H0", "C0", "Weight", "Bias", "Cell", "Hidden", "BatchGate",
                 "BatchCellPreAct"})
          .grad_outs({"Hidden"}))
      .sample([](Draw& draw) { return lstm_sample(draw, false, true, false); })
      .sample([](Draw& draw) { return lstm_sample(draw, false, false, false); })
      .sample([](Draw& draw) { return lstm_sample(draw, false, true, true); });
  add_recurrence(
      ops.op("lstmp")
          .doc("An lstm whose hidden state is projected from D to P numbers before the next step")
          .in("Input", kInput)
          .in_optional("H0", "[sequences, P]: the projected state before the first step")
          .in_optional("C0", kCell0)
          .in("Weight", "[P, 4 * D], from the projected state to the gates")
          .in("ProjWeight", "[D, P]")
          .in("Bias", kBias)
          .out("Projection", "[rows, P], the LoD of Input")
          .out("Cell", kCell)
          .out_intermediate("BatchGate", kGate)
          .out_intermediate("BatchCellPreAct", kActive)
          .out_intermediate("BatchHidden", "[rows, D]: the hidden state before projection")
          .attr("cell_clip", 0.0f, "the cell is kept within plus and minus this; 0: it is not")
          .at_least(0)
          .attr("proj_clip", 0.0f,
                "the projection is kept within plus and minus this; 0: it is not")
          .at_least(0)
          .attr("proj_activation", "tanh", "of the projection")
          .one_of(activation_names())
          .grad({"Weight", "ProjWeight", "Bias", "Projection", "Cell", "BatchGate",
                 "BatchCellPreAct", "BatchHidden", "H0", "C0"})
          .grad_outs({"Projection"})
          .grad_shape(lstmp_grad_shape))
      .sample([](Draw& draw) { return lstm_sample(draw, true, true, false); })
      .sample([](Draw& draw) { return lstm_sample(draw, true, false, true); })
      .sample([](Draw& draw) {  // nothing comes near these clips, or all of it is beyond them
        OpSample sample = lstm_sample(draw, true, true, false);
        sample.attrs["cell_clip"] = 50.0f;
        sample.attrs["proj_clip"] = draw.coin() ? 5.0f : 1e-6f;
        return sample;
      });
}

}  // namespace trireme
