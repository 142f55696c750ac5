// lstmp: an lstm whose hidden state is projected to a narrower one on its way to the next step.
// BatchGate, BatchCellPreAct and BatchHidden keep the gates after activation, the activated cell
// and the hidden state before projection, in the order of Input's rows; the gradient reads all
// three.
#include "ops/lstm_recurrence.h"
#include "ops/sequence_rules.h"

namespace trireme {
namespace {

void lstmp_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  const Shape& weight = op.in("Weight").shape;
  const Shape& projection = op.in("ProjWeight").shape;
  const Shape& bias = op.in("Bias").shape;
  const std::vector<int64_t>* offsets = sequence_offsets(op, "Input");
  if (x.shape.rank() != 2 || weight.rank() != 2 || projection.rank() != 2) {
    throw op
        .error(cat("Input has shape ", x.shape, ", Weight ", weight, " and ProjWeight ", projection,
                   " but all have two dimensions"))
        .fix("give Input [rows, 4 * D], Weight [P, 4 * D] and ProjWeight [D, P]");
  }
  const Dim width = projection[0], state = projection[1];
  if (!weight.may_equal({state, width * Dim(4)}) || !x.shape[1].may_equal(width * Dim(4))) {
    throw op
        .error(cat("Weight ", weight, " and Input ", x.shape, " do not fit ProjWeight ", projection,
                   ": D is ", width, " and P is ", state))
        .fix("give Input [rows, 4 * D], Weight [P, 4 * D] and ProjWeight [D, P]");
  }
  const bool peephole = op.attr<bool>("use_peepholes");
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
          .fix("give H0 one row of P and C0 one row of D numbers for every sequence");
    }
  }
  op.set_out("Projection", x.dtype, {x.shape[0], state});
  op.set_out("BatchGate", x.dtype, x.shape);
  for (const std::string slot : {"Cell", "BatchCellPreAct", "BatchHidden"}) {
    op.set_out(slot, x.dtype, {x.shape[0], width});
  }
  for (const std::string slot :
       {"Projection", "Cell", "BatchGate", "BatchCellPreAct", "BatchHidden"}) {
    op.share_lod("Input", slot);
  }
}

// `rows`: an operand with Input's LoD. The gradient op does not read Input.
template <class T>
LstmRecurrence<T> recurrence(const KernelSite& site, std::string_view rows, Product<T> product) {
  return {.steps = Steps(bound_offsets(site, rows), site.attr<bool>("is_reverse")),
          .width = site.in("ProjWeight").shape.at(0),
          .state = site.in("ProjWeight").shape.at(1),
          .peephole = site.attr<bool>("use_peepholes"),
          .projected = true,
          .gate = activation_of(site.attr<std::string>("gate_activation")),
          .cell = activation_of(site.attr<std::string>("cell_activation")),
          .candidate = activation_of(site.attr<std::string>("candidate_activation")),
          .projection = activation_of(site.attr<std::string>("proj_activation")),
          .cell_clip = static_cast<T>(site.attr<float>("cell_clip")),
          .projection_clip = static_cast<T>(site.attr<float>("proj_clip")),
          .product = product};
}

struct LstmpIns {
  int weight, projection, bias, h0, c0;
  explicit LstmpIns(const KernelSite& site)
      : weight(site.position("Weight")),
        projection(site.position("ProjWeight")),
        bias(site.position("Bias")),
        h0(site.position("H0")),
        c0(site.position("C0")) {}
  template <class T>
  LstmData<T> data(const KernelArgs& k) const {
    return {.weight = k.in<T>(weight),
            .bias = k.in<T>(bias),
            .projection = k.in<T>(projection),
            .r0 = in_or_null<T>(k, h0),
            .c0 = in_or_null<T>(k, c0)};
  }
};

template <class T>
BoundKernel lstmp(const KernelSite& site, Product<T> product) {
  const int input = site.position("Input"), out = site.out_position("Projection");
  const int cell = site.out_position("Cell"), gate = site.out_position("BatchGate");
  const int active = site.out_position("BatchCellPreAct");
  const int hidden = site.out_position("BatchHidden");
  return recurrence<T>(site, "Input", product)
      .forward_kernel(
          [=](const KernelArgs& k) { return k.in<T>(input); },
          [ins = LstmpIns(site)](const KernelArgs& k) { return ins.template data<T>(k); },
          [=](const KernelArgs& k) {
            return LstmRows<T>{.gates = k.out<T>(gate),
                               .active = k.out<T>(active),
                               .cell = k.out<T>(cell),
                               .h = k.out<T>(hidden),
                               .r = k.out<T>(out)};
          });
}

template <class T>
BoundKernel lstmp_grad(const KernelSite& site, Product<T> product) {
  const int out = site.position("Projection"), cell = site.position("Cell");
  const int gate = site.position("BatchGate"), active = site.position("BatchCellPreAct");
  const int hidden = site.position("BatchHidden");
  const int dout = site.position("Projection@GRAD"), dcell = site.position("Cell@GRAD");
  const int dinput = site.out_position("Input@GRAD"), dweight = site.out_position("Weight@GRAD");
  const int dprojection = site.out_position("ProjWeight@GRAD");
  const int dbias = site.out_position("Bias@GRAD");
  const int dh0 = site.out_position("H0@GRAD"), dc0 = site.out_position("C0@GRAD");
  return recurrence<T>(site, "Projection", product)
      .backward_kernel(
          [ins = LstmpIns(site)](const KernelArgs& k) { return ins.template data<T>(k); },
          [=](const KernelArgs& k) {
            return LstmRows<const T>{.gates = k.in<T>(gate),
                                     .active = k.in<T>(active),
                                     .cell = k.in<T>(cell),
                                     .h = k.in<T>(hidden),
                                     .r = k.in<T>(out)};
          },
          [=](const KernelArgs& k) {
            return LstmGrads<T>{.dr = in_or_null<T>(k, dout),
                                .dcell = in_or_null<T>(k, dcell),
                                .dinput = out_or_null<T>(k, dinput),
                                .dweight = out_or_null<T>(k, dweight),
                                .dbias = out_or_null<T>(k, dbias),
                                .dprojection = out_or_null<T>(k, dprojection),
                                .dr0 = out_or_null<T>(k, dh0),
                                .dc0 = out_or_null<T>(k, dc0)};
          });
}

// Input is not read, so its gradient is shaped after the gates, which are as wide.
void lstmp_grad_shape(OpView& op) {
  op.set_out_like("Input@GRAD", op.in("BatchGate"));
  for (const std::string slot : {"Weight", "ProjWeight", "Bias", "H0", "C0"}) {
    if (op.has(slot)) op.set_out_like(slot + "@GRAD", op.in(slot));
  }
}

OpSample lstmp_sample(Draw& draw, bool peephole, bool reverse) {
  OpSample sample;
  const int64_t width = draw.size(1, 3), state = draw.size(1, 3), sequences = draw.size(1, 3);
  sample.inputs["Input"] = {draw_sequences(draw, {4 * width}, {.sequences = sequences})};
  sample.inputs["Weight"] = {draw.uniform({state, 4 * width})};
  sample.inputs["ProjWeight"] = {draw.uniform({width, state})};
  sample.inputs["Bias"] = {draw.uniform({1, (peephole ? 7 : 4) * width})};
  if (draw.coin()) {
    sample.inputs["H0"] = {draw.uniform({sequences, state})};
    sample.inputs["C0"] = {draw.uniform({sequences, width})};
  }
  sample.attrs["use_peepholes"] = peephole;
  sample.attrs["is_reverse"] = reverse;
  return sample;
}

}  // namespace

void register_lstmp(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return lstmp<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return lstmp_grad<T>(site, product);
  };
  ops.op("lstmp")
      .doc("An lstm whose hidden state is projected from D to P numbers before the next step")
      .in("Input", "[rows, 4 * D] in sequences: candidate, input, forget, output")
      .in_optional("H0", "[sequences, P]: the projected state before the first step")
      .in_optional("C0", "[sequences, D]: the cell before the first step")
      .in("Weight", "[P, 4 * D], from the projected state to the gates")
      .in("ProjWeight", "[D, P]")
      .in("Bias", "[1, 4 * D], with peepholes [1, 7 * D]: then W_ic, W_fc, W_oc follow")
      .out("Projection", "[rows, P], the LoD of Input")
      .out("Cell", "[rows, D], the LoD of Input")
      .out_intermediate("BatchGate", "[rows, 4 * D]: the gates after activation")
      .out_intermediate("BatchCellPreAct", "[rows, D]: the cell after its activation")
      .out_intermediate("BatchHidden", "[rows, D]: the hidden state before projection")
      .attr("use_peepholes", true, "the gates also see the cell")
      .attr("is_reverse", false, "run every sequence from its end")
      .attr("cell_clip", 0.0f, "the cell is kept within plus and minus this; 0: it is not")
      .at_least(0)
      .attr("proj_clip", 0.0f, "the projection is kept within plus and minus this; 0: it is not")
      .at_least(0)
      .attr("gate_activation", "sigmoid", "of the three gates")
      .one_of(activation_names())
      .attr("cell_activation", "tanh", "of the cell on its way to the hidden state")
      .one_of(activation_names())
      .attr("candidate_activation", "tanh", "of the candidate")
      .one_of(activation_names())
      .attr("proj_activation", "tanh", "of the projection")
      .one_of(activation_names())
      .shape(lstmp_shape)
      .kernel(with_onednn(forward), "onednn")
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad({"Weight", "ProjWeight", "Bias", "Projection", "Cell", "BatchGate", "BatchCellPreAct",
             "BatchHidden", "H0", "C0"})
      .grad_outs({"Projection"})
      .grad_outs_if_any({"Cell"})
      .grad_shape(lstmp_grad_shape)
      .grad_kernel(with_onednn(backward), "onednn")
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample([](Draw& draw) { return lstmp_sample(draw, true, false); })
      .sample([](Draw& draw) { return lstmp_sample(draw, false, true); })
      .sample([](Draw& draw) {  // nothing comes near these clips, or all of it is beyond them
        OpSample sample = lstmp_sample(draw, true, false);
        sample.attrs["cell_clip"] = 50.0f;
        sample.attrs["proj_clip"] = draw.coin() ? 5.0f : 1e-6f;
        return sample;
      });
}

}  // namespace trireme
