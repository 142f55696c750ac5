// lstm: a long short-term memory over sequences whose input is already projected.
//
// Columns of Input, Weight, Bias and BatchGate come in four blocks of width D: candidate, input
// gate, forget gate, output gate. With peepholes Bias continues with three more: W_ic, W_fc, W_oc.
//   i = gate(x_i + h' W_i + b_i + W_ic * c')      f = gate(x_f + h' W_f + b_f + W_fc * c')
//   g = candidate(x_c + h' W_c + b_c)             c = f * c' + i * g
//   o = gate(x_o + h' W_o + b_o + W_oc * c)       h = o * cell_activation(c)
// BatchGate keeps g, i, f, o and BatchCellPreAct keeps cell_activation(c), in the order of Input's
// rows; the gradient reads both.
#include <algorithm>

#include "ops/gemm_kernel.h"
#include "ops/recurrent_rules.h"
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

struct Activations {
  Activation gate, cell, candidate;
  explicit Activations(const KernelSite& site)
      : gate(activation_of(site.attr<std::string>("gate_activation"))),
        cell(activation_of(site.attr<std::string>("cell_activation"))),
        candidate(activation_of(site.attr<std::string>("candidate_activation"))) {}
};

// Block b of a row of four blocks.
template <class T>
T* block(T* row, int64_t b, int64_t width) {
  return row + b * width;
}

template <class T>
BoundKernel lstm(const KernelSite& site, Product<T> product) {
  const int input = site.position("Input"), weight = site.position("Weight");
  const int bias = site.position("Bias"), h0 = site.position("H0"), c0 = site.position("C0");
  const int hidden = site.out_position("Hidden"), cell = site.out_position("Cell");
  const int gate = site.out_position("BatchGate");
  const int cell_act = site.out_position("BatchCellPreAct");
  const Steps steps(bound_offsets(site, "Input"), site.attr<bool>("is_reverse"));
  const int64_t width = site.in("Weight").shape.at(0);
  const bool peephole = site.attr<bool>("use_peepholes");
  const Activations act(site);
  return BoundKernel([=](const KernelArgs& k) {
    const T* b = k.in<T>(bias);
    const std::vector<T> zeros(static_cast<size_t>(3 * width));
    const T* peep = peephole ? b + 4 * width : zeros.data();
    std::vector<T> h = first_state(steps, width, k.has_in(h0) ? k.in<T>(h0) : nullptr);
    std::vector<T> c = first_state(steps, width, k.has_in(c0) ? k.in<T>(c0) : nullptr);
    std::vector<T> sums(static_cast<size_t>(steps.sequences() * 4 * width));
    for (int64_t t = 0; t < steps.count(); ++t) {
      const int64_t n = steps.active(t);
      for (int64_t s = 0; s < n; ++s) {
        const T* x = k.in<T>(input) + steps.row(s, t) * 4 * width;
        std::transform(x, x + 4 * width, b, sums.data() + s * 4 * width, std::plus<T>());
      }
      product({.m = n,
               .n = 4 * width,
               .k = width,
               .a = h.data(),
               .lda = width,
               .b = k.in<T>(weight),
               .ldb = 4 * width,
               .c = sums.data(),
               .ldc = 4 * width,
               .beta = 1});
      for (int64_t s = 0; s < n; ++s) {
        const int64_t row = steps.row(s, t);
        const T* in = sums.data() + s * 4 * width;
        T* g = k.out<T>(gate) + row * 4 * width;
        for (int64_t j = 0; j < width; ++j) {
          T& state = c[static_cast<size_t>(s * width + j)];
          const T candidate = activate(act.candidate, block(in, 0, width)[j]);
          const T i = activate(act.gate, block(in, 1, width)[j] + peep[j] * state);
          const T f = activate(act.gate, block(in, 2, width)[j] + peep[width + j] * state);
          state = f * state + i * candidate;
          const T o = activate(act.gate, block(in, 3, width)[j] + peep[2 * width + j] * state);
          const T active = activate(act.cell, state);
          block(g, 0, width)[j] = candidate;
          block(g, 1, width)[j] = i;
          block(g, 2, width)[j] = f;
          block(g, 3, width)[j] = o;
          k.out<T>(cell_act)[row * width + j] = active;
          k.out<T>(cell)[row * width + j] = state;
          k.out<T>(hidden)[row * width + j] = h[static_cast<size_t>(s * width + j)] = o * active;
        }
      }
    }
  });
}

// Runs the steps backwards. dh and dc are the gradients of the state after the step; they leave as
// those of the state before it. The weights are read once more at the end, over all rows at once.
template <class T>
BoundKernel lstm_grad(const KernelSite& site, Product<T> product) {
  const int weight = site.position("Weight"), bias = site.position("Bias");
  const int h0 = site.position("H0"), c0 = site.position("C0");
  const int hidden = site.position("Hidden"), cell = site.position("Cell");
  const int gate = site.position("BatchGate"), cell_act = site.position("BatchCellPreAct");
  const int dhidden = site.position("Hidden@GRAD"), dcell = site.position("Cell@GRAD");
  const int dinput = site.out_position("Input@GRAD"), dweight = site.out_position("Weight@GRAD");
  const int dbias = site.out_position("Bias@GRAD");
  const int dh0 = site.out_position("H0@GRAD"), dc0 = site.out_position("C0@GRAD");
  const Steps steps(bound_offsets(site, "Input"), site.attr<bool>("is_reverse"));
  const int64_t width = site.in("Weight").shape.at(0);
  const bool peephole = site.attr<bool>("use_peepholes");
  const Activations act(site);
  return BoundKernel([=](const KernelArgs& k) {
    const std::vector<T> zeros(static_cast<size_t>(3 * width));
    const T* peep = peephole ? k.in<T>(bias) + 4 * width : zeros.data();
    const std::vector<T> h_first = first_state(steps, width, k.has_in(h0) ? k.in<T>(h0) : nullptr);
    const std::vector<T> c_first = first_state(steps, width, k.has_in(c0) ? k.in<T>(c0) : nullptr);
    std::vector<T> dh(h_first.size()), dc(c_first.size());
    std::vector<T> dgates(static_cast<size_t>(steps.rows() * 4 * width));  // before activation
    std::vector<T> h_before(static_cast<size_t>(steps.rows() * width));
    std::vector<T> dpeep(static_cast<size_t>(3 * width));
    std::vector<T> dsums(static_cast<size_t>(steps.sequences() * 4 * width));
    for (int64_t t = steps.count() - 1; t >= 0; --t) {
      const int64_t n = steps.active(t);
      for (int64_t s = 0; s < n; ++s) {
        const int64_t row = steps.row(s, t);
        const T* g = k.in<T>(gate) + row * 4 * width;
        const T* c_old = previous(steps, s, t, width, k.in<T>(cell), c_first);
        const T* h_old = previous(steps, s, t, width, k.in<T>(hidden), h_first);
        std::copy_n(h_old, width, h_before.data() + row * width);
        T* d = dsums.data() + s * 4 * width;
        for (int64_t j = 0; j < width; ++j) {
          const T candidate = block(g, 0, width)[j], i = block(g, 1, width)[j];
          const T f = block(g, 2, width)[j], o = block(g, 3, width)[j];
          const T active = k.in<T>(cell_act)[row * width + j];
          const auto at = static_cast<size_t>(s * width + j);
          const T dh_all = dh[at] + (k.has_in(dhidden) ? k.in<T>(dhidden)[row * width + j] : T{0});
          const T d_o = dh_all * active * slope(act.gate, o);
          T dc_all = dc[at] + dh_all * o * slope(act.cell, active) + d_o * peep[2 * width + j];
          if (k.has_in(dcell)) dc_all += k.in<T>(dcell)[row * width + j];
          const T d_i = dc_all * candidate * slope(act.gate, i);
          const T d_f = dc_all * c_old[j] * slope(act.gate, f);
          dc[at] = dc_all * f + d_i * peep[j] + d_f * peep[width + j];
          block(d, 0, width)[j] = dc_all * i * slope(act.candidate, candidate);
          block(d, 1, width)[j] = d_i;
          block(d, 2, width)[j] = d_f;
          block(d, 3, width)[j] = d_o;
          dpeep[static_cast<size_t>(j)] += d_i * c_old[j];
          dpeep[static_cast<size_t>(width + j)] += d_f * c_old[j];
          dpeep[static_cast<size_t>(2 * width + j)] += d_o * k.in<T>(cell)[row * width + j];
        }
        std::copy_n(d, 4 * width, dgates.data() + row * 4 * width);
      }
      product({.m = n,
               .n = width,
               .k = 4 * width,
               .a = dsums.data(),
               .lda = 4 * width,
               .b = k.in<T>(weight),
               .ldb = 4 * width,
               .trans_b = true,
               .c = dh.data(),
               .ldc = width});
    }
    if (k.has_out(dinput)) std::copy(dgates.begin(), dgates.end(), k.out<T>(dinput));
    if (k.has_out(dh0)) store_state(steps, width, dh, k.out<T>(dh0));
    if (k.has_out(dc0)) store_state(steps, width, dc, k.out<T>(dc0));
    if (k.has_out(dweight)) {
      product({.m = width,
               .n = 4 * width,
               .k = steps.rows(),
               .a = h_before.data(),
               .lda = width,
               .trans_a = true,
               .b = dgates.data(),
               .ldb = 4 * width,
               .c = k.out<T>(dweight),
               .ldc = 4 * width});
    }
    if (!k.has_out(dbias)) return;
    T* db = k.out<T>(dbias);
    std::fill_n(db, k.out(dbias).numel(), T{0});
    for (int64_t row = 0; row < steps.rows(); ++row) {
      for (int64_t j = 0; j < 4 * width; ++j)
        db[j] += dgates[static_cast<size_t>(row * 4 * width + j)];
    }
    if (peephole) std::copy(dpeep.begin(), dpeep.end(), db + 4 * width);
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
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad(
          {"Input", "H0", "C0", "Weight", "Bias", "Cell", "Hidden", "BatchGate", "BatchCellPreAct"})
      .grad_outs({"Hidden"})
      .grad_outs_if_any({"Cell"})
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample([](Draw& draw) { return lstm_sample(draw, true, false); })
      .sample([](Draw& draw) { return lstm_sample(draw, false, false); })
      .sample([](Draw& draw) { return lstm_sample(draw, true, true); });
}

}  // namespace trireme
