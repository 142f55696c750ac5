// gru and gru_unit: gated recurrent units over sequences, and one step of them.
//
// Columns of Input, Bias and the kept gates come in three blocks of width D: update, reset,
// candidate. Weight holds D * 3D numbers: first a [D, 2D] matrix for update and reset, then a [D,
// D] matrix for the candidate; it is not a [D, 3D] matrix cut by columns.
//   u = gate(x_u + h' W_u + b_u)    r = gate(x_r + h' W_r + b_r)    c = act(x_c + (r * h') W_c +
//   b_c) h = u * c + (1 - u) * h', or with origin_mode h = u * h' + (1 - u) * c
// The gates, r * h' and h are kept in the order of Input's rows; the gradient reads them.
#include <algorithm>

#include "ops/gemm_kernel.h"
#include "ops/recurrent_rules.h"
#include "ops/sequence_rules.h"

namespace trireme {
namespace {

template <class T>
struct GruCell {
  int64_t width;
  Activation gate, candidate;
  bool origin_mode;
  Product<T> product;

  // One step for n rows, each operand given as contiguous rows. `gates` comes in as Input plus bias
  // and leaves as u, r, c.
  void forward(int64_t n, const T* weight, const T* h_old, T* gates, T* reset_h, T* h) const {
    const int64_t d = width;
    product({.m = n,
             .n = 2 * d,
             .k = d,
             .a = h_old,
             .lda = d,
             .b = weight,
             .ldb = 2 * d,
             .c = gates,
             .ldc = 3 * d,
             .beta = 1});
    for (int64_t s = 0; s < n; ++s) {
      T* g = gates + s * 3 * d;
      for (int64_t j = 0; j < 2 * d; ++j) g[j] = activate(gate, g[j]);
      for (int64_t j = 0; j < d; ++j) reset_h[s * d + j] = g[d + j] * h_old[s * d + j];
    }
    product({.m = n,
             .n = d,
             .k = d,
             .a = reset_h,
             .lda = d,
             .b = weight + 2 * d * d,
             .ldb = d,
             .c = gates + 2 * d,
             .ldc = 3 * d,
             .beta = 1});
    for (int64_t s = 0; s < n; ++s) {
      T* g = gates + s * 3 * d;
      for (int64_t j = 0; j < d; ++j) {
        const T u = g[j], old = h_old[s * d + j];
        const T c = g[2 * d + j] = activate(candidate, g[2 * d + j]);
        h[s * d + j] = origin_mode ? u * old + (1 - u) * c : u * c + (1 - u) * old;
      }
    }
  }

  // dh: the gradient of h. Leaves the gradients before activation in dgates and that of h' in
  // dh_old.
  void backward(int64_t n, const T* weight, const T* h_old, const T* gates, const T* dh, T* dgates,
                T* dh_old) const {
    const int64_t d = width;
    for (int64_t s = 0; s < n; ++s) {
      const T* g = gates + s * 3 * d;
      T* dg = dgates + s * 3 * d;
      for (int64_t j = 0; j < d; ++j) {
        const T u = g[j], c = g[2 * d + j], old = h_old[s * d + j], top = dh[s * d + j];
        const T du = origin_mode ? old - c : c - old, dc = origin_mode ? 1 - u : u;
        dg[j] = top * du * slope(gate, u);
        dg[2 * d + j] = top * dc * slope(candidate, c);
        dh_old[s * d + j] = top * (1 - dc);
      }
    }
    std::vector<T> dreset_h(static_cast<size_t>(n * d));
    product({.m = n,
             .n = d,
             .k = d,
             .a = dgates + 2 * d,
             .lda = 3 * d,
             .b = weight + 2 * d * d,
             .ldb = d,
             .trans_b = true,
             .c = dreset_h.data(),
             .ldc = d});
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t j = 0; j < d; ++j) {
        const T r = gates[s * 3 * d + d + j], dr = dreset_h[static_cast<size_t>(s * d + j)];
        dgates[s * 3 * d + d + j] = dr * h_old[s * d + j] * slope(gate, r);
        dh_old[s * d + j] += dr * r;
      }
    }
    product({.m = n,
             .n = d,
             .k = 2 * d,
             .a = dgates,
             .lda = 3 * d,
             .b = weight,
             .ldb = 2 * d,
             .trans_b = true,
             .c = dh_old,
             .ldc = d,
             .beta = 1});
  }

  // The weight's gradient over all rows at once.
  void weight_grad(int64_t n, const T* h_old, const T* reset_h, const T* dgates, T* dweight) const {
    const int64_t d = width;
    product({.m = d,
             .n = 2 * d,
             .k = n,
             .a = h_old,
             .lda = d,
             .trans_a = true,
             .b = dgates,
             .ldb = 3 * d,
             .c = dweight,
             .ldc = 2 * d});
    product({.m = d,
             .n = d,
             .k = n,
             .a = reset_h,
             .lda = d,
             .trans_a = true,
             .b = dgates + 2 * d,
             .ldb = 3 * d,
             .c = dweight + 2 * d * d,
             .ldc = d});
  }
};

template <class T>
void add_bias(const T* x, const T* bias, int64_t n, T* to) {
  for (int64_t j = 0; j < n; ++j) to[j] = x[j] + (bias ? bias[j] : T{0});
}

template <class T>
void sum_rows(int64_t rows, int64_t width, const T* from, T* to) {
  std::fill_n(to, width, T{0});
  for (int64_t i = 0; i < rows * width; ++i) to[i % width] += from[i];
}

// D, after checking Input [n, 3D], Weight [D, 3D] and Bias [1, 3D].
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

template <class T>
GruCell<T> gru_cell(const KernelSite& site, Product<T> product) {
  return {site.in("Weight").shape.at(0), activation_of(site.attr<std::string>("gate_activation")),
          activation_of(site.attr<std::string>("activation")), site.attr<bool>("origin_mode"),
          product};
}

template <class T>
BoundKernel gru(const KernelSite& site, Product<T> product) {
  const int input = site.position("Input"), weight = site.position("Weight");
  const int bias = site.position("Bias"), h0 = site.position("H0");
  const int gate = site.out_position("BatchGate"), hidden = site.out_position("Hidden");
  const int reset = site.out_position("BatchResetHiddenPrev");
  const int kept_hidden = site.out_position("BatchHidden");
  const Steps steps(bound_offsets(site, "Input"), site.attr<bool>("is_reverse"));
  const GruCell<T> cell = gru_cell<T>(site, product);
  return BoundKernel([=](const KernelArgs& k) {
    const int64_t d = cell.width;
    const T* b = k.has_in(bias) ? k.in<T>(bias) : nullptr;
    std::vector<T> h = first_state(steps, d, k.has_in(h0) ? k.in<T>(h0) : nullptr);
    std::vector<T> gates(h.size() * 3), reset_h(h.size()), next(h.size());
    for (int64_t t = 0; t < steps.count(); ++t) {
      const int64_t n = steps.active(t);
      for (int64_t s = 0; s < n; ++s) {
        add_bias(k.in<T>(input) + steps.row(s, t) * 3 * d, b, 3 * d, gates.data() + s * 3 * d);
      }
      cell.forward(n, k.in<T>(weight), h.data(), gates.data(), reset_h.data(), next.data());
      for (int64_t s = 0; s < n; ++s) {
        const int64_t row = steps.row(s, t);
        std::copy_n(gates.data() + s * 3 * d, 3 * d, k.out<T>(gate) + row * 3 * d);
        std::copy_n(reset_h.data() + s * d, d, k.out<T>(reset) + row * d);
        std::copy_n(next.data() + s * d, d, k.out<T>(hidden) + row * d);
        std::copy_n(next.data() + s * d, d, k.out<T>(kept_hidden) + row * d);
      }
      std::copy_n(next.data(), n * d, h.data());
    }
  });
}

template <class T>
BoundKernel gru_grad(const KernelSite& site, Product<T> product) {
  const int weight = site.position("Weight"), h0 = site.position("H0");
  const int gate = site.position("BatchGate"), reset = site.position("BatchResetHiddenPrev");
  const int hidden = site.position("Hidden"), dhidden = site.position("Hidden@GRAD");
  const int dinput = site.out_position("Input@GRAD"), dh0 = site.out_position("H0@GRAD");
  const int dweight = site.out_position("Weight@GRAD"), dbias = site.out_position("Bias@GRAD");
  const Steps steps(bound_offsets(site, "Input"), site.attr<bool>("is_reverse"));
  const GruCell<T> cell = gru_cell<T>(site, product);
  return BoundKernel([=](const KernelArgs& k) {
    const int64_t d = cell.width;
    const std::vector<T> first = first_state(steps, d, k.has_in(h0) ? k.in<T>(h0) : nullptr);
    std::vector<T> dgates_all(static_cast<size_t>(steps.rows() * 3 * d));
    std::vector<T> h_before(static_cast<size_t>(steps.rows() * d));
    std::vector<T> dh(first.size()), h_old(first.size()), dh_old(first.size());
    std::vector<T> gates(first.size() * 3), dgates(first.size() * 3);
    for (int64_t t = steps.count() - 1; t >= 0; --t) {
      const int64_t n = steps.active(t);
      for (int64_t s = 0; s < n; ++s) {
        const int64_t row = steps.row(s, t);
        const T* old = previous(steps, s, t, d, k.in<T>(hidden), first);
        std::copy_n(old, d, h_old.data() + s * d);
        std::copy_n(old, d, h_before.data() + row * d);
        std::copy_n(k.in<T>(gate) + row * 3 * d, 3 * d, gates.data() + s * 3 * d);
        for (int64_t j = 0; j < d; ++j) {
          dh[static_cast<size_t>(s * d + j)] += k.in<T>(dhidden)[row * d + j];
        }
      }
      cell.backward(n, k.in<T>(weight), h_old.data(), gates.data(), dh.data(), dgates.data(),
                    dh_old.data());
      std::copy_n(dh_old.data(), n * d, dh.data());
      for (int64_t s = 0; s < n; ++s) {
        std::copy_n(dgates.data() + s * 3 * d, 3 * d, dgates_all.data() + steps.row(s, t) * 3 * d);
      }
    }
    if (k.has_out(dinput)) std::copy(dgates_all.begin(), dgates_all.end(), k.out<T>(dinput));
    if (k.has_out(dh0)) store_state(steps, d, dh, k.out<T>(dh0));
    if (k.has_out(dbias)) sum_rows(steps.rows(), 3 * d, dgates_all.data(), k.out<T>(dbias));
    if (k.has_out(dweight)) {
      cell.weight_grad(steps.rows(), h_before.data(), k.in<T>(reset), dgates_all.data(),
                       k.out<T>(dweight));
    }
  });
}

// --- gru_unit: the same cell, once.

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

template <class T>
GruCell<T> unit_cell(const KernelSite& site, Product<T> product) {
  return {site.in("Weight").shape.at(0), activation_of(site, site.attr<int>("gate_activation")),
          activation_of(site, site.attr<int>("activation")), site.attr<bool>("origin_mode"),
          product};
}

template <class T>
BoundKernel gru_unit(const KernelSite& site, Product<T> product) {
  const int input = site.position("Input"), weight = site.position("Weight");
  const int bias = site.position("Bias"), old = site.position("HiddenPrev");
  const int gate = site.out_position("Gate"), reset = site.out_position("ResetHiddenPrev");
  const int hidden = site.out_position("Hidden");
  const int64_t rows = site.in("Input").shape.at(0);
  const GruCell<T> cell = unit_cell<T>(site, product);
  return BoundKernel([=](const KernelArgs& k) {
    const int64_t columns = 3 * cell.width;
    for (int64_t row = 0; row < rows; ++row) {
      add_bias(k.in<T>(input) + row * columns, k.has_in(bias) ? k.in<T>(bias) : nullptr, columns,
               k.out<T>(gate) + row * columns);
    }
    cell.forward(rows, k.in<T>(weight), k.in<T>(old), k.out<T>(gate), k.out<T>(reset),
                 k.out<T>(hidden));
  });
}

template <class T>
BoundKernel gru_unit_grad(const KernelSite& site, Product<T> product) {
  const int weight = site.position("Weight"), old = site.position("HiddenPrev");
  const int gate = site.position("Gate"), reset = site.position("ResetHiddenPrev");
  const int dhidden = site.position("Hidden@GRAD"), dinput = site.out_position("Input@GRAD");
  const int dold = site.out_position("HiddenPrev@GRAD");
  const int dweight = site.out_position("Weight@GRAD"), dbias = site.out_position("Bias@GRAD");
  const int64_t rows = site.in("Input").shape.at(0);
  const GruCell<T> cell = unit_cell<T>(site, product);
  return BoundKernel([=](const KernelArgs& k) {
    const int64_t d = cell.width;
    std::vector<T> dgates(static_cast<size_t>(rows * 3 * d));
    std::vector<T> dh_old(static_cast<size_t>(rows * d));
    cell.backward(rows, k.in<T>(weight), k.in<T>(old), k.in<T>(gate), k.in<T>(dhidden),
                  dgates.data(), dh_old.data());
    if (k.has_out(dinput)) std::copy(dgates.begin(), dgates.end(), k.out<T>(dinput));
    if (k.has_out(dold)) std::copy(dh_old.begin(), dh_old.end(), k.out<T>(dold));
    if (k.has_out(dbias)) sum_rows(rows, 3 * d, dgates.data(), k.out<T>(dbias));
    if (k.has_out(dweight)) {
      cell.weight_grad(rows, k.in<T>(old), k.in<T>(reset), dgates.data(), k.out<T>(dweight));
    }
  });
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

void register_gru(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_grad<T>(site, product);
  };
  const auto unit = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_unit<T>(site, product);
  };
  const auto unit_backward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_unit_grad<T>(site, product);
  };
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
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad({"Input", "H0", "Bias", "Weight", "BatchGate", "BatchResetHiddenPrev", "BatchHidden",
             "Hidden"})
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample([](Draw& draw) { return gru_sample(draw, false, false); })
      .sample([](Draw& draw) { return gru_sample(draw, true, false); })
      .sample([](Draw& draw) { return gru_sample(draw, false, true); });

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
      .kernel(with_blas(unit), "blas")
      .kernel(with_reference(unit))
      .grad({"Input", "HiddenPrev", "Weight", "Bias", "Gate", "ResetHiddenPrev"})
      .grad_kernel(with_blas(unit_backward), "blas")
      .grad_kernel(with_reference(unit_backward))
      .sample(unit_sample);
}

}  // namespace trireme
