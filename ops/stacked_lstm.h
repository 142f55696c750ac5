// Several layers of long short-term memory over padded steps, forward and back: what cudnn_lstm
// runs.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "ops/gemm_kernel.h"
#include "ops/recurrent_rules.h"
#include "ops/scratch.h"

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

// The arrays that a run works in, with those of the mask and of the gradient where they are needed.
template <class T>
struct StackedLstmMemory {
  struct Needs {
    bool dropout = false, backward = false;
  };
  T *in, *mask;            // by layer after the first: [time, batch, directions * hidden]
  T* out;                  // by layer: [time, batch, directions * hidden]
  T *gates, *cells;        // by layer and direction: [time, batch, ...], gates activated
  T *h, *dh, *dc;          // [batch, hidden]
  T *dgates, *dout, *din;  // of one layer; the last two change places from layer to layer
  size_t bytes;

  StackedLstmMemory(const LstmSizes& s, Needs needs, std::byte* memory) {
    const int64_t rows = s.time * s.batch, width = s.directions * s.hidden;
    const int64_t masked = needs.dropout ? (s.layers - 1) * rows * width : 0;
    const int64_t back = needs.backward ? 1 : 0;
    Scratch scratch(memory);
    in = scratch.take<T>(masked);
    mask = scratch.take<T>(masked);
    out = scratch.take<T>(s.layers * rows * width);
    gates = scratch.take<T>(s.layers * s.directions * rows * s.gates());
    cells = scratch.take<T>(s.layers * s.directions * rows * s.hidden);
    h = scratch.take<T>(s.state());
    dh = scratch.take<T>(back * s.state());
    dc = scratch.take<T>(back * s.state());
    dgates = scratch.take<T>(back * rows * s.gates());
    dout = scratch.take<T>(back * rows * std::max(width, s.input));
    din = scratch.take<T>(back * rows * std::max(width, s.input));
    bytes = scratch.bytes();
  }
};

// One run of all layers. Nothing is kept between the op and its gradient: the gradient runs the
// layers again, with the same dropout, as both draw from the stream of Out.
template <class T>
class StackedLstm {
 public:
  StackedLstm(const LstmSizes& sizes, const Product<T>& product, const StackedLstmMemory<T>& memory,
              const T* w, const T* h0, const T* c0)
      : s_(sizes), product_(product), memory_(memory), w_(w), h0_(h0), c0_(c0) {}

  // Without numbers nothing is dropped.
  void forward(const T* x, double drop, const Philox* numbers) {
    x_ = x;
    dropped_ = numbers != nullptr;
    for (int64_t l = 0; l < s_.layers; ++l) {
      if (l > 0 && numbers) drop_out(l, drop, *numbers);
      for (int64_t d = 0; d < s_.directions; ++d) run_direction(l, d);
    }
  }

  const T* out() const { return layer(s_.layers - 1).out; }
  void last_states(T* h, T* c) const {
    for (int64_t l = 0; l < s_.layers; ++l) {
      for (int64_t d = 0; d < s_.directions; ++d) {
        const int64_t t = time_at(d, s_.time - 1), to = (l * s_.directions + d) * s_.state();
        const Layer at = layer(l);
        for (int64_t i = 0; i < s_.state(); ++i) {
          if (h) h[to + i] = at.out[hidden_at(t, d, i)];
          if (c) c[to + i] = at.cells[d][t * s_.state() + i];
        }
      }
    }
  }

  struct Grads {
    const T *dout, *dlast_h, *dlast_c;  // may be null
    T *dx, *dw, *dh0, *dc0;             // may be null
  };
  void backward(const Grads& g) const {
    const int64_t rows = s_.time * s_.batch, out_count = rows * s_.directions * s_.hidden;
    T *dy = memory_.dout, *din = memory_.din;
    if (g.dout) {
      std::copy_n(g.dout, out_count, dy);
    } else {
      std::fill_n(dy, out_count, T{0});
    }
    if (g.dw) std::fill_n(g.dw, s_.weights(), T{0});
    for (int64_t l = s_.layers - 1; l >= 0; --l) {
      const Layer at = layer(l);
      const int64_t count = rows * s_.width(l);
      std::fill_n(din, count, T{0});
      for (int64_t d = 0; d < s_.directions; ++d) back_direction(l, d, dy, g, din);
      for (int64_t i = 0; at.mask && i < count; ++i) din[i] *= at.mask[i];
      if (l == 0 && g.dx) std::copy_n(din, count, g.dx);
      std::swap(dy, din);
    }
  }

 private:
  struct Layer {
    const T *in, *mask;  // [time, batch, width], dropped out; a null mask drops nothing
    T* out;
    T *gates[2], *cells[2];  // by direction
  };
  Layer layer(int64_t l) const {
    const int64_t rows = s_.time * s_.batch, width = s_.directions * s_.hidden;
    const bool masked = l > 0 && dropped_;
    Layer at{};
    at.in = l == 0   ? x_
            : masked ? memory_.in + (l - 1) * rows * width
                     : memory_.out + (l - 1) * rows * width;
    at.mask = masked ? memory_.mask + (l - 1) * rows * width : nullptr;
    at.out = memory_.out + l * rows * width;
    for (int64_t d = 0; d < s_.directions; ++d) {
      at.gates[d] = memory_.gates + (l * s_.directions + d) * rows * s_.gates();
      at.cells[d] = memory_.cells + (l * s_.directions + d) * rows * s_.hidden;
    }
    return at;
  }

  int64_t time_at(int64_t direction, int64_t step) const {
    return direction == 0 ? step : s_.time - 1 - step;
  }
  // Element i of [batch, hidden] at a time, in `out`, where the directions stand side by side.
  int64_t hidden_at(int64_t t, int64_t d, int64_t i) const {
    return ((t * s_.batch + i / s_.hidden) * s_.directions + d) * s_.hidden + i % s_.hidden;
  }

  // What the layer before gives, some of it dropped.
  void drop_out(int64_t l, double drop, const Philox& numbers) const {
    const int64_t count = s_.time * s_.batch * s_.width(l), first = (l - 1) * count;
    const auto kept = static_cast<T>(1 / (1 - drop));
    const T* from = layer(l - 1).out;
    for (int64_t i = 0; i < count; ++i) {
      const T mask = numbers.uniform(static_cast<uint64_t>(first + i)) < drop ? T{0} : kept;
      memory_.mask[first + i] = mask;
      memory_.in[first + i] = from[i] * mask;
    }
  }

  // The hidden state before a step, [batch, hidden].
  const T* hidden_before(const Layer& layer, int64_t l, int64_t d, int64_t step) const {
    if (step == 0) return h0_ + (l * s_.directions + d) * s_.state();
    for (int64_t i = 0; i < s_.state(); ++i) {
      memory_.h[i] = layer.out[hidden_at(time_at(d, step - 1), d, i)];
    }
    return memory_.h;
  }
  const T* cell_before(const Layer& layer, int64_t l, int64_t d, int64_t step) const {
    return step == 0 ? c0_ + (l * s_.directions + d) * s_.state()
                     : layer.cells[d] + time_at(d, step - 1) * s_.state();
  }

  void run_direction(int64_t l, int64_t d) const {
    const int64_t rows = s_.time * s_.batch, n = s_.gates(), width = s_.width(l);
    const Layer layer = this->layer(l);
    T* gates = layer.gates[d];
    const T* bias = w_ + s_.bias(l, d);
    for (int64_t i = 0; i < rows * n; ++i) gates[i] = bias[i % n] + bias[n + i % n];
    product_({.m = rows,
              .n = n,
              .k = width,
              .a = layer.in,
              .lda = width,
              .b = w_ + s_.from_input(l, d),
              .ldb = width,
              .trans_b = true,
              .c = gates,
              .ldc = n,
              .beta = 1});
    for (int64_t step = 0; step < s_.time; ++step) {
      const int64_t t = time_at(d, step);
      const T* h = hidden_before(layer, l, d, step);
      const T* c = cell_before(layer, l, d, step);
      T* at_t = gates + t * s_.batch * n;
      product_({.m = s_.batch,
                .n = n,
                .k = s_.hidden,
                .a = h,
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

  void back_direction(int64_t l, int64_t d, const T* dy, const Grads& g, T* din) const {
    const int64_t rows = s_.time * s_.batch, n = s_.gates(), width = s_.width(l);
    const int64_t state_at = (l * s_.directions + d) * s_.state();
    const Layer layer = this->layer(l);
    T *dgates = memory_.dgates, *dh = memory_.dh, *dc = memory_.dc;
    std::fill_n(dh, s_.state(), T{0});
    std::fill_n(dc, s_.state(), T{0});
    if (g.dlast_h) std::copy_n(g.dlast_h + state_at, s_.state(), dh);
    if (g.dlast_c) std::copy_n(g.dlast_c + state_at, s_.state(), dc);
    for (int64_t step = s_.time - 1; step >= 0; --step) {
      const int64_t t = time_at(d, step);
      const T* c = cell_before(layer, l, d, step);
      T* dg = dgates + t * s_.batch * n;
      for (int64_t i = 0; i < s_.state(); ++i) {
        const int64_t at = i / s_.hidden * n + i % s_.hidden;
        const T* gate = layer.gates[d] + t * s_.batch * n + at;
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
                .c = dh,
                .ldc = s_.hidden});
      if (!g.dw) continue;
      const T* h = hidden_before(layer, l, d, step);
      product_({.m = n,
                .n = s_.hidden,
                .k = s_.batch,
                .a = dg,
                .lda = n,
                .trans_a = true,
                .b = h,
                .ldb = s_.hidden,
                .c = g.dw + s_.from_hidden(l, d),
                .ldc = s_.hidden,
                .beta = 1});
    }
    if (g.dh0) std::copy_n(dh, s_.state(), g.dh0 + state_at);
    if (g.dc0) std::copy_n(dc, s_.state(), g.dc0 + state_at);
    product_({.m = rows,
              .n = width,
              .k = n,
              .a = dgates,
              .lda = n,
              .b = w_ + s_.from_input(l, d),
              .ldb = width,
              .c = din,
              .ldc = width,
              .beta = 1});
    if (!g.dw) return;
    product_({.m = n,
              .n = width,
              .k = rows,
              .a = dgates,
              .lda = n,
              .trans_a = true,
              .b = layer.in,
              .ldb = width,
              .c = g.dw + s_.from_input(l, d),
              .ldc = width});
    T* dbias = g.dw + s_.bias(l, d);
    sum_rows(rows, n, dgates, dbias);
    std::copy_n(dbias, n, dbias + n);
  }

  LstmSizes s_;
  Product<T> product_;
  StackedLstmMemory<T> memory_;
  const T *w_, *h0_, *c0_;
  const T* x_ = nullptr;
  bool dropped_ = false;
};

}  // namespace trireme
