// Several layers of long short-term memory over padded steps, forward and back: what cudnn_lstm
// runs.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.h"
#include "ops/gemm_kernel.h"
#include "ops/recurrent_rules.h"

namespace trireme {

// Where each weight stands in the flat tensor W. First the matrices: for every layer and direction
// those from the input [4 * hidden, width], then those from the hidden state [4 * hidden, hidden],
// gates in the order input, forget, candidate, output. Then the biases: for every layer and
// direction 4 * hidden for the input and 4 * hidden for the hidden state. It is cuDNN's order.
struct LstmSizes {
  int64_t time, batch, input, hidden, layers, directions;

  explicit LstmSizes(const OpView& op)
      : time(op.in("Input").shape[0].value()),
        batch(op.in("Input").shape[1].value()),
        input(op.in("Input").shape[2].value()),
        hidden(op.attr<int32_t>("hidden_size")),
        layers(op.attr<int32_t>("num_layers")),
        directions(op.attr<bool>("is_bidirec") ? 2 : 1) {}

  int64_t gates() const { return 4 * hidden; }
  int64_t width(int64_t layer) const { return layer == 0 ? input : directions * hidden; }
  int64_t matrices(int64_t layer) const { return gates() * (width(layer) + hidden); }
  int64_t all_matrices() const {
    int64_t sum = 0;
    for (int64_t layer = 0; layer < layers; ++layer) sum += directions * matrices(layer);
    return sum;
  }
  int64_t weights() const { return all_matrices() + layers * directions * 2 * gates(); }
  int64_t state() const { return batch * hidden; }  // elements of one layer and direction

  int64_t from_input(int64_t layer, int64_t direction) const {
    int64_t at = direction * matrices(layer);
    for (int64_t before = 0; before < layer; ++before) at += directions * matrices(before);
    return at;
  }
  int64_t from_hidden(int64_t layer, int64_t direction) const {
    return from_input(layer, direction) + gates() * width(layer);
  }
  int64_t bias(int64_t layer,
               int64_t direction) const {  // of the input; the hidden state's follows
    return all_matrices() + (layer * directions + direction) * 2 * gates();
  }
};

// One run of all layers. Nothing is kept between the op and its gradient: the gradient runs the
// layers again, with the same dropout, as both draw from the stream of Out.
template <class T>
class StackedLstm {
 public:
  struct Layer {
    std::vector<T> in;                  // [time, batch, width], dropped out
    std::vector<T> mask;                // of `in`; empty: nothing is dropped
    std::vector<T> out;                 // [time, batch, directions * hidden]
    std::vector<T> gates[2], cells[2];  // by direction: [time, batch, ...], gates activated
  };

  StackedLstm(const LstmSizes& sizes, const Product<T>& product, const T* w, const T* h0,
              const T* c0)
      : s_(sizes), product_(product), w_(w), h0_(h0), c0_(c0) {}

  void forward(const T* x, double drop, const Philox* numbers) {
    for (int64_t l = 0; l < s_.layers; ++l) {
      Layer& layer = layers_.emplace_back();
      const int64_t rows = s_.time * s_.batch, count = rows * s_.width(l);
      layer.in.assign(l == 0 ? x : layers_[l - 1].out.data(),
                      (l == 0 ? x : layers_[l - 1].out.data()) + count);
      if (l > 0 && drop > 0 && numbers) drop_out(layer, l, drop, *numbers);
      layer.out.resize(static_cast<size_t>(rows * s_.directions * s_.hidden));
      for (int64_t d = 0; d < s_.directions; ++d) run_direction(layer, l, d);
    }
  }

  const std::vector<T>& out() const { return layers_.back().out; }
  void last_states(T* h, T* c) const {
    for (int64_t l = 0; l < s_.layers; ++l) {
      for (int64_t d = 0; d < s_.directions; ++d) {
        const int64_t t = time_at(d, s_.time - 1), to = (l * s_.directions + d) * s_.state();
        for (int64_t i = 0; i < s_.state(); ++i) {
          if (h) h[to + i] = layers_[l].out[hidden_at(t, d, i)];
          if (c) c[to + i] = layers_[l].cells[d][t * s_.state() + i];
        }
      }
    }
  }

  struct Grads {
    const T *dout, *dlast_h, *dlast_c;  // may be null
    T *dx, *dw, *dh0, *dc0;             // may be null
  };
  void backward(const Grads& g) const {
    const int64_t rows = s_.time * s_.batch;
    std::vector<T> dy(static_cast<size_t>(rows * s_.directions * s_.hidden));
    if (g.dout) std::copy_n(g.dout, dy.size(), dy.data());
    if (g.dw) std::fill_n(g.dw, s_.weights(), T{0});
    for (int64_t l = s_.layers - 1; l >= 0; --l) {
      const Layer& layer = layers_[l];
      std::vector<T> din(layer.in.size());
      for (int64_t d = 0; d < s_.directions; ++d) back_direction(layer, l, d, dy, g, din);
      for (size_t i = 0; i < layer.mask.size(); ++i) din[i] *= layer.mask[i];
      if (l == 0 && g.dx) std::copy(din.begin(), din.end(), g.dx);
      dy = std::move(din);
    }
  }

 private:
  int64_t time_at(int64_t direction, int64_t step) const {
    return direction == 0 ? step : s_.time - 1 - step;
  }
  // Element i of [batch, hidden] at a time, in `out`, where the directions stand side by side.
  int64_t hidden_at(int64_t t, int64_t d, int64_t i) const {
    return ((t * s_.batch + i / s_.hidden) * s_.directions + d) * s_.hidden + i % s_.hidden;
  }

  void drop_out(Layer& layer, int64_t l, double drop, const Philox& numbers) const {
    const auto kept = static_cast<T>(1 / (1 - drop));
    layer.mask.resize(layer.in.size());
    for (size_t i = 0; i < layer.in.size(); ++i) {
      const uint64_t at = static_cast<uint64_t>(l - 1) * layer.in.size() + i;
      layer.mask[i] = numbers.uniform(at) < drop ? T{0} : kept;
      layer.in[i] *= layer.mask[i];
    }
  }

  // The hidden state before a step, [batch, hidden].
  std::vector<T> hidden_before(const Layer& layer, int64_t l, int64_t d, int64_t step) const {
    std::vector<T> h(static_cast<size_t>(s_.state()));
    for (int64_t i = 0; i < s_.state(); ++i) {
      h[i] = step == 0 ? h0_[(l * s_.directions + d) * s_.state() + i]
                       : layer.out[hidden_at(time_at(d, step - 1), d, i)];
    }
    return h;
  }
  const T* cell_before(const Layer& layer, int64_t l, int64_t d, int64_t step) const {
    return step == 0 ? c0_ + (l * s_.directions + d) * s_.state()
                     : layer.cells[d].data() + time_at(d, step - 1) * s_.state();
  }

  void run_direction(Layer& layer, int64_t l, int64_t d) const {
    const int64_t rows = s_.time * s_.batch, n = s_.gates(), width = s_.width(l);
    std::vector<T>& gates = layer.gates[d];
    gates.resize(static_cast<size_t>(rows * n));
    layer.cells[d].resize(static_cast<size_t>(rows * s_.hidden));
    const T* bias = w_ + s_.bias(l, d);
    for (int64_t i = 0; i < rows * n; ++i) gates[i] = bias[i % n] + bias[n + i % n];
    product_({.m = rows,
              .n = n,
              .k = width,
              .a = layer.in.data(),
              .lda = width,
              .b = w_ + s_.from_input(l, d),
              .ldb = width,
              .trans_b = true,
              .c = gates.data(),
              .ldc = n,
              .beta = 1});
    for (int64_t step = 0; step < s_.time; ++step) {
      const int64_t t = time_at(d, step);
      const std::vector<T> h = hidden_before(layer, l, d, step);
      const T* c = cell_before(layer, l, d, step);
      T* at_t = gates.data() + t * s_.batch * n;
      product_({.m = s_.batch,
                .n = n,
                .k = s_.hidden,
                .a = h.data(),
                .lda = s_.hidden,
                .b = w_ + s_.from_hidden(l, d),
                .ldb = s_.hidden,
                .trans_b = true,
                .c = at_t,
                .ldc = n,
                .beta = 1});
      for (int64_t i = 0; i < s_.state(); ++i) {
        T* gate = at_t + i / s_.hidden * n + i % s_.hidden;
        for (const int64_t which : {0, 1, 3}) {
          gate[which * s_.hidden] = activate(Activation::sigmoid, gate[which * s_.hidden]);
        }
        gate[2 * s_.hidden] = std::tanh(gate[2 * s_.hidden]);
        const T cell = gate[s_.hidden] * c[i] + gate[0] * gate[2 * s_.hidden];
        layer.cells[d][t * s_.state() + i] = cell;
        layer.out[hidden_at(t, d, i)] = gate[3 * s_.hidden] * std::tanh(cell);
      }
    }
  }

  void back_direction(const Layer& layer, int64_t l, int64_t d, const std::vector<T>& dy,
                      const Grads& g, std::vector<T>& din) const {
    const int64_t rows = s_.time * s_.batch, n = s_.gates(), width = s_.width(l);
    const int64_t state_at = (l * s_.directions + d) * s_.state();
    const auto state = static_cast<size_t>(s_.state());
    std::vector<T> dgates(static_cast<size_t>(rows * n)), dh(state), dc(state);
    if (g.dlast_h) std::copy_n(g.dlast_h + state_at, state, dh.data());
    if (g.dlast_c) std::copy_n(g.dlast_c + state_at, state, dc.data());
    for (int64_t step = s_.time - 1; step >= 0; --step) {
      const int64_t t = time_at(d, step);
      const T* c = cell_before(layer, l, d, step);
      T* dg = dgates.data() + t * s_.batch * n;
      for (int64_t i = 0; i < s_.state(); ++i) {
        const int64_t at = i / s_.hidden * n + i % s_.hidden;
        const T* gate = layer.gates[d].data() + t * s_.batch * n + at;
        const T in = gate[0], forget = gate[s_.hidden], candidate = gate[2 * s_.hidden],
                out = gate[3 * s_.hidden];
        const T active = std::tanh(layer.cells[d][t * s_.state() + i]);
        const T dhidden = dh[i] + dy[hidden_at(t, d, i)];
        const T dcell = dc[i] + dhidden * out * (T{1} - active * active);
        dg[at] = dcell * candidate * in * (T{1} - in);
        dg[at + s_.hidden] = dcell * c[i] * forget * (T{1} - forget);
        dg[at + 2 * s_.hidden] = dcell * in * (T{1} - candidate * candidate);
        dg[at + 3 * s_.hidden] = dhidden * active * out * (T{1} - out);
        dc[i] = dcell * forget;
      }
      product_({.m = s_.batch,
                .n = s_.hidden,
                .k = n,
                .a = dg,
                .lda = n,
                .b = w_ + s_.from_hidden(l, d),
                .ldb = s_.hidden,
                .c = dh.data(),
                .ldc = s_.hidden});
      if (!g.dw) continue;
      const std::vector<T> h = hidden_before(layer, l, d, step);
      product_({.m = n,
                .n = s_.hidden,
                .k = s_.batch,
                .a = dg,
                .lda = n,
                .trans_a = true,
                .b = h.data(),
                .ldb = s_.hidden,
                .c = g.dw + s_.from_hidden(l, d),
                .ldc = s_.hidden,
                .beta = 1});
    }
    if (g.dh0) std::copy_n(dh.data(), state, g.dh0 + state_at);
    if (g.dc0) std::copy_n(dc.data(), state, g.dc0 + state_at);
    product_({.m = rows,
              .n = width,
              .k = n,
              .a = dgates.data(),
              .lda = n,
              .b = w_ + s_.from_input(l, d),
              .ldb = width,
              .c = din.data(),
              .ldc = width,
              .beta = 1});
    if (!g.dw) return;
    product_({.m = n,
              .n = width,
              .k = rows,
              .a = dgates.data(),
              .lda = n,
              .trans_a = true,
              .b = layer.in.data(),
              .ldb = width,
              .c = g.dw + s_.from_input(l, d),
              .ldc = width});
    T* dbias = g.dw + s_.bias(l, d);
    sum_rows(rows, n, dgates.data(), dbias);
    std::copy_n(dbias, n, dbias + n);
  }

  LstmSizes s_;
  Product<T> product_;
  const T *w_, *h0_, *c0_;
  std::vector<Layer> layers_;
};

}  // namespace trireme
