// gru_unit: one step of a gated recurrent unit, without sequences.
#include "cpu/kernels/gru_cell.h"
#include "ir/schema.h"
#include "ops/scratch.h"

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
  const int parts = row_groups(rows);
  return BoundKernel(
      [=](const KernelArgs& k) {
        const int64_t d = cell.width;
        const auto [first, last] = k.range(parts);
        for (int64_t i = first; i < last; ++i) {
          const auto [begin, end] = part_of(rows, i, parts);
          for (int64_t row = begin; row < end; ++row) {
            add_bias(k.in<T>(input) + row * 3 * d, in_or_null<T>(k, bias), 3 * d,
                     k.out<T>(gate) + row * 3 * d);
          }
          cell.forward(end - begin, k.in<T>(weight), k.in<T>(old) + begin * d,
                       k.out<T>(gate) + begin * 3 * d, k.out<T>(reset) + begin * d,
                       k.out<T>(hidden) + begin * d);
        }
      },
      parts);
}

template <class T>
struct UnitGradMemory {
  T *dgates, *dh_old, *dreset_h;
  size_t bytes;

  UnitGradMemory(int64_t rows, int64_t d, std::byte* memory) {
    Scratch scratch(memory);
    dgates = scratch.take<T>(rows * 3 * d);
    dh_old = scratch.take<T>(rows * d);
    dreset_h = scratch.take<T>(rows * d);
    bytes = scratch.bytes();
  }
};

template <class T>
BoundKernel gru_unit_grad(const KernelSite& site, Product<T> product) {
  const int weight = site.position("Weight"), old = site.position("HiddenPrev");
  const int gate = site.position("Gate"), reset = site.position("ResetHiddenPrev");
  const int dhidden = site.position("Hidden@GRAD"), dinput = site.out_position("Input@GRAD");
  const int dold = site.out_position("HiddenPrev@GRAD");
  const int dweight = site.out_position("Weight@GRAD"), dbias = site.out_position("Bias@GRAD");
  const int64_t rows = site.in("Input").shape.at(0);
  const GruCell<T> cell = unit_cell<T>(site, product);
  const int parts = row_groups(rows), pieces = weight_parts(cell.width);
  BoundKernel kernel(
      [=](const KernelArgs& k) {
        const int64_t d = cell.width;
        const UnitGradMemory<T> m(rows, d, k.scratch);
        const auto [first, last] = k.range(parts);
        for (int64_t i = first; i < last; ++i) {
          const auto [begin, end] = part_of(rows, i, parts);
          const int64_t n = end - begin;
          T *const dgates = m.dgates + begin * 3 * d, *const dh_old = m.dh_old + begin * d;
          cell.backward(n, {k.in<T>(weight)}, k.in<T>(old) + begin * d,
                        k.in<T>(gate) + begin * 3 * d, k.in<T>(dhidden) + begin * d, dgates, dh_old,
                        m.dreset_h + begin * d);
          if (k.has_out(dinput)) std::copy_n(dgates, n * 3 * d, k.out<T>(dinput) + begin * 3 * d);
          if (k.has_out(dold)) std::copy_n(dh_old, n * d, k.out<T>(dold) + begin * d);
        }
      },
      parts);
  kernel.scratch = UnitGradMemory<T>(rows, cell.width, nullptr).bytes;
  kernel.then.emplace_back(
      [=](const KernelArgs& k) {
        const int64_t d = cell.width;
        const UnitGradMemory<T> m(rows, d, k.scratch);
        const auto [first, last] = k.range(pieces);
        for (int64_t i = first; i < last; ++i) {
          if (k.has_out(dweight)) {
            const auto [begin, end] = part_of(d, i, pieces);
            cell.weight_grad(rows, k.in<T>(old), k.in<T>(reset), m.dgates, 3 * d, begin, end,
                             k.out<T>(dweight));
          }
          if (k.has_out(dbias)) {
            const auto [begin, end] = part_of(3 * d, i, pieces);
            sum_rows(rows, end - begin, m.dgates + begin, k.out<T>(dbias) + begin, 3 * d);
          }
        }
      },
      pieces);
  return kernel;
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
  const auto unit = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_unit<T>(site, product);
  };
  const auto unit_backward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_unit_grad<T>(site, product);
  };
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
      .kernel(with_onednn(unit), "onednn")
      .kernel(with_blas(unit), "blas")
      .kernel(with_reference(unit))
      .grad({"Input", "HiddenPrev", "Weight", "Bias", "Gate", "ResetHiddenPrev"})
      .grad_kernel(with_onednn(unit_backward), "onednn")
      .grad_kernel(with_blas(unit_backward), "blas")
      .grad_kernel(with_reference(unit_backward))
      .sample(unit_sample);
}

}  // namespace trireme
