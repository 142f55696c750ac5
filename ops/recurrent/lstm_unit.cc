// lstm_unit: one step of an LSTM from gates that are computed already.
#include <cmath>

#include "ops/rules.h"

namespace trireme {
namespace {

void lstm_unit_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &cell = op.in("C_prev");
  require_floating(op, "X");
  if (x.shape.rank() != 2 || cell.shape.rank() != 2 || !x.shape[0].may_equal(cell.shape[0]) ||
      (x.shape[1].known() && cell.shape[1].known() && x.shape.at(1) != 4 * cell.shape.at(1))) {
    throw op.error(cat("X has shape ", x.shape, " and C_prev ", cell.shape))
        .fix("give X [rows, 4 * size] and C_prev [rows, size]");
  }
  op.set_out_like("C", cell);
  op.set_out_like("H", cell);
}

// The gates of one element. X holds input, forget, output and candidate side by side.
template <class T>
struct LstmGates {
  T input, forget, output, candidate;

  LstmGates(const T* row, int64_t width, int64_t j, T forget_bias)
      : input(sigmoid(row[j])),
        forget(sigmoid(row[width + j] + forget_bias)),
        output(sigmoid(row[2 * width + j])),
        candidate(std::tanh(row[3 * width + j])) {}

 private:
  static T sigmoid(T x) { return 1 / (1 + std::exp(-x)); }
};

template <class T>
BoundKernel lstm_unit(const KernelSite& site) {
  const int64_t rows = site.in("C_prev").shape.at(0), width = site.in("C_prev").shape.at(1);
  const int x_at = site.position("X"), before_at = site.position("C_prev");
  const int cell_at = site.out_position("C"), hidden_at = site.out_position("H");
  const auto forget_bias = static_cast<T>(site.attr<float>("forget_bias"));
  return BoundKernel([=](const KernelArgs& k) {
    for (int64_t i = 0; i < rows * width; ++i) {
      const LstmGates<T> gate(k.in<T>(x_at) + i / width * 4 * width, width, i % width, forget_bias);
      const T cell = gate.forget * k.in<T>(before_at)[i] + gate.input * gate.candidate;
      if (k.has_out(cell_at)) k.out<T>(cell_at)[i] = cell;
      if (k.has_out(hidden_at)) k.out<T>(hidden_at)[i] = gate.output * std::tanh(cell);
    }
  });
}

template <class T>
BoundKernel lstm_unit_grad(const KernelSite& site) {
  const int64_t rows = site.in("C_prev").shape.at(0), width = site.in("C_prev").shape.at(1);
  const int x_at = site.position("X"), before_at = site.position("C_prev");
  const int dcell_at = site.position("C@GRAD"), dhidden_at = site.position("H@GRAD");
  const int dx_at = site.out_position("X@GRAD"), dbefore_at = site.out_position("C_prev@GRAD");
  const auto forget_bias = static_cast<T>(site.attr<float>("forget_bias"));
  return BoundKernel([=](const KernelArgs& k) {
    for (int64_t i = 0; i < rows * width; ++i) {
      const int64_t row = i / width * 4 * width, j = i % width;
      const LstmGates<T> gate(k.in<T>(x_at) + row, width, j, forget_bias);
      const T before = k.in<T>(before_at)[i];
      const T squashed = std::tanh(gate.forget * before + gate.input * gate.candidate);
      const T dhidden = k.has_in(dhidden_at) ? k.in<T>(dhidden_at)[i] : T{0};
      const T dcell = (k.has_in(dcell_at) ? k.in<T>(dcell_at)[i] : T{0}) +
                      dhidden * gate.output * (1 - squashed * squashed);
      if (k.has_out(dbefore_at)) k.out<T>(dbefore_at)[i] = dcell * gate.forget;
      if (!k.has_out(dx_at)) continue;
      T* dx = k.out<T>(dx_at) + row;
      dx[j] = dcell * gate.candidate * gate.input * (1 - gate.input);
      dx[width + j] = dcell * before * gate.forget * (1 - gate.forget);
      dx[2 * width + j] = dhidden * squashed * gate.output * (1 - gate.output);
      dx[3 * width + j] = dcell * gate.input * (1 - gate.candidate * gate.candidate);
    }
  });
}

}  // namespace

void register_lstm_unit(Registry& ops) {
  ops.op("lstm_unit")
      .doc("C = sigmoid(f + forget_bias) C_prev + sigmoid(i) tanh(g), H = sigmoid(o) tanh(C)")
      .in("X", "[rows, 4 * size]: i, f, o and g side by side")
      .in("C_prev", "[rows, size]: the cell before")
      .out("C", "the cell")
      .out("H", "the hidden state")
      .attr("forget_bias", 0.0f, "added to f")
      .shape(lstm_unit_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return lstm_unit<T>(s); }))
      .grad({"X", "C_prev"})
      .grad_kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return lstm_unit_grad<T>(s); }))
      .sample([](Draw& draw) {
        const int64_t rows = draw.size(1, 3), width = draw.size(1, 3);
        return OpSample{.inputs = {{"X", {draw.uniform({rows, 4 * width})}},
                                   {"C_prev", {draw.uniform({rows, width})}}},
                        .attrs = {{"forget_bias", 0.5f}}};
      });
}

}  // namespace trireme
