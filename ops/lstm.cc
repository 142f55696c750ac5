// lstm: a long short-term memory over sequences whose input is already projected to the gates.
// BatchGate keeps the gates after activation and BatchCellPreAct the activated cell, in the order
// of Input's rows; the gradient reads both.
#include "ops/lstm_recurrence.h"
#include "ops/sequence_rules.h"

namespace trireme {
namespace {

void lstm_shape(OpView& op) {
  const ValueInfo& x = op.in("Input");
  const Shape& weight = op.in("Weight").shape;
  const Shape& bias = op.in("Bias").shape;
  const std::vector<int64_t>* offsets = sequence_offsets(op, "Input");
  if (x.shape.rank() != 2 || weight.rank() != 2) {
    throw op
        .error(cat("Input has shape ", x.shape, " and Weight ", weight,
                   " but both have two dimensions"))
        .fix("give Input [rows, 4 * D] and Weight [D, 4 * D]");
  }
  const Dim width = Dim::join(weight[0], x.shape[1] / Dim(4));
  if (!weight[1].may_equal(width * Dim(4)) || !x.shape[1].may_equal(width * Dim(4))) {
    throw op
        .error(cat("Weight ", weight, " and Input ", x.shape, " do not fit: D is ", width,
                   ", so both need ", width * Dim(4), " columns"))
        .fix("project the input to 4 * D columns with fc(size=4 * D) and pass size=4 * D");
  }
  const Dim biases = width * Dim(op.attr<bool>("use_peepholes") ? 7 : 4);
  if (!bias.numel().may_equal(biases)) {
    throw op
        .error(cat("Bias has shape ", bias, " but use_peepholes=",
                   op.attr<bool>("use_peepholes") ? "True" : "False", " needs [1, ", biases, "]"))
        .fix("give a bias of 4 * D, or with peepholes of 7 * D, elements");
  }
  const Dim sequences = offsets ? Dim(static_cast<int64_t>(offsets->size()) - 1) : Dim();
  for (const std::string slot : {"H0", "C0"}) {
    if (op.has(slot) && !op.in(slot).shape.may_equal({sequences, width})) {
      throw op
          .error(cat(slot, " has shape ", op.in(slot).shape, " but there are ", sequences,
                     " sequences of width ", width))
          .fix(cat("give ", slot, " one row of D numbers for every sequence"));
    }
  }
  for (const std::string slot : {"Hidden", "Cell", "BatchGate", "BatchCellPreAct"}) {
    op.set_out(slot, x.dtype, {x.shape[0], slot == "BatchGate" ? x.shape[1] : width});
    op.share_lod("Input", slot);
  }
}

template <class T>
LstmRecurrence<T> recurrence(const KernelSite& site, Product<T> product) {
  const int64_t width = site.in("Weight").shape.at(0);
  return {.steps = Steps(bound_offsets(site, "Input"), site.attr<bool>("is_reverse")),
          .width = width,
          .state = width,
          .peephole = site.attr<bool>("use_peepholes"),
          .projected = false,
          .gate = activation_of(site.attr<std::string>("gate_activation")),
          .cell = activation_of(site.attr<std::string>("cell_activation")),
          .candidate = activation_of(site.attr<std::string>("candidate_activation")),
          .product = product};
}

struct LstmIns {
  int weight, bias, h0, c0;
  explicit LstmIns(const KernelSite& site)
      : weight(site.position("Weight")),
        bias(site.position("Bias")),
        h0(site.position("H0")),
        c0(site.position("C0")) {}
  template <class T>
  LstmData<T> data(const KernelArgs& k) const {
    return {.weight = k.in<T>(weight),
            .bias = k.in<T>(bias),
            .r0 = in_or_null<T>(k, h0),
            .c0 = in_or_null<T>(k, c0)};
  }
};

template <class T>
BoundKernel lstm(const KernelSite& site, Product<T> product) {
  const int input = site.position("Input");
  const int hidden = site.out_position("Hidden"), cell = site.out_position("Cell");
  const int gate = site.out_position("BatchGate");
  const int active = site.out_position("BatchCellPreAct");
  return recurrence<T>(site, product)
      .forward_kernel(
          [=](const KernelArgs& k) { return k.in<T>(input); },
          [ins = LstmIns(site)](const KernelArgs& k) { return ins.template data<T>(k); },
          [=](const KernelArgs& k) {
            return LstmRows<T>{.gates = k.out<T>(gate),
                               .active = k.out<T>(active),
                               .cell = k.out<T>(cell),
                               .h = k.out<T>(hidden),
                               .r = k.out<T>(hidden)};
          });
}

template <class T>
BoundKernel lstm_grad(const KernelSite& site, Product<T> product) {
  const int hidden = site.position("Hidden"), cell = site.position("Cell");
  const int gate = site.position("BatchGate"), active = site.position("BatchCellPreAct");
  const int dhidden = site.position("Hidden@GRAD"), dcell = site.position("Cell@GRAD");
  const int dinput = site.out_position("Input@GRAD"), dweight = site.out_position("Weight@GRAD");
  const int dbias = site.out_position("Bias@GRAD");
  const int dh0 = site.out_position("H0@GRAD"), dc0 = site.out_position("C0@GRAD");
  return recurrence<T>(site, product)
      .backward_kernel(
          [ins = LstmIns(site)](const KernelArgs& k) { return ins.template data<T>(k); },
          [=](const KernelArgs& k) {
            return LstmRows<const T>{.gates = k.in<T>(gate),
                                     .active = k.in<T>(active),
                                     .cell = k.in<T>(cell),
                                     .h = k.in<T>(hidden),
                                     .r = k.in<T>(hidden)};
          },
          [=](const KernelArgs& k) {
            return LstmGrads<T>{.dr = in_or_null<T>(k, dhidden),
                                .dcell = in_or_null<T>(k, dcell),
                                .dinput = out_or_null<T>(k, dinput),
                                .dweight = out_or_null<T>(k, dweight),
                                .dbias = out_or_null<T>(k, dbias),
                                .dr0 = out_or_null<T>(k, dh0),
                                .dc0 = out_or_null<T>(k, dc0)};
          });
}

OpSample lstm_sample(Draw& draw, bool peephole, bool reverse) {
  OpSample sample;
  const int64_t width = draw.size(1, 3), sequences = draw.size(1, 3);
  sample.inputs["Input"] = {draw_sequences(draw, {4 * width}, {.sequences = sequences})};
  sample.inputs["Weight"] = {draw.uniform({width, 4 * width})};
  sample.inputs["Bias"] = {draw.uniform({1, (peephole ? 7 : 4) * width})};
  if (draw.coin()) {
    sample.inputs["H0"] = {draw.uniform({sequences, width})};
    sample.inputs["C0"] = {draw.uniform({sequences, width})};
  }
  sample.attrs["use_peepholes"] = peephole;
  sample.attrs["is_reverse"] = reverse;
  if (draw.coin()) sample.attrs["candidate_activation"] = std::string("identity");
  return sample;
}

}  // namespace

void register_lstm(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return lstm<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return lstm_grad<T>(site, product);
  };
  ops.op("lstm")
      .doc(
          "A long short-term memory over every sequence of Input, which is already projected to "
          "the four gates: candidate, input, forget, output")
      .in("Input", "[rows, 4 * D] in sequences")
      .in_optional("H0", "[sequences, D]: the hidden state before the first step")
      .in_optional("C0", "[sequences, D]: the cell before the first step")
      .in("Weight", "[D, 4 * D], from the hidden state to the gates")
      .in("Bias", "[1, 4 * D], with peepholes [1, 7 * D]: then W_ic, W_fc, W_oc follow")
      .out("Hidden", "[rows, D], the LoD of Input")
      .out("Cell", "[rows, D], the LoD of Input")
      .out_intermediate("BatchGate", "[rows, 4 * D]: the gates after activation")
      .out_intermediate("BatchCellPreAct", "[rows, D]: the cell after its activation")
      .attr("use_peepholes", true, "the gates also see the cell")
      .attr("is_reverse", false, "run every sequence from its end")
      .attr("gate_activation", "sigmoid", "of the three gates")
      .one_of(activation_names())
      .attr("cell_activation", "tanh", "of the cell on its way to the hidden state")
      .one_of(activation_names())
      .attr("candidate_activation", "tanh", "of the candidate")
      .one_of(activation_names())
      .shape(lstm_shape)
      .kernel(with_onednn(forward), "onednn")
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad(
          {"Input", "H0", "C0", "Weight", "Bias", "Cell", "Hidden", "BatchGate", "BatchCellPreAct"})
      .grad_outs({"Hidden"})
      .grad_outs_if_any({"Cell"})
      .grad_kernel(with_onednn(backward), "onednn")
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample([](Draw& draw) { return lstm_sample(draw, true, false); })
      .sample([](Draw& draw) { return lstm_sample(draw, false, false); })
      .sample([](Draw& draw) { return lstm_sample(draw, true, true); });
}

}  // namespace trireme
