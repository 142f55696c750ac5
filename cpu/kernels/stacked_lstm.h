// Several layers of long short-term memory over padded steps, forward and back: what cudnn_lstm
// runs.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "cpu/gemm_kernel.h"
#include "cpu/staging.h"
#include "ops/recurrent/lstm_sizes.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/scratch.h"

namespace trireme {

// Between rows of the matrix from the hidden state, turned over.
inline int64_t turned_pitch(const LstmSizes& sizes) { return staging_pitch(sizes.gates()); }

// The arrays that a run works in, with those of the mask and of the gradient where they are needed.
template <class T>
struct StackedLstmMemory {
  struct Needs {
    bool dropout = false, backward = false;
  };
  T* turned;         // by layer and direction: the matrix from the hidden state turned over
  T *in, *mask;      // by layer after the first: [time, batch, directions * hidden]
  T* out;            // by layer: [time, batch, directions * hidden]
  T *gates, *cells;  // by layer and direction: [time, batch, ...], gates activated
  T *dh, *dc;        // by direction: [batch, hidden]
  T* dgates;         // of one layer, by direction: [time, batch, 4 * hidden]
  T *dout, *din;     // of one layer; they change places from layer to layer
  size_t bytes;

  StackedLstmMemory(const LstmSizes& s, Needs needs, std::byte* memory) {
    const int64_t rows = s.time * s.batch, width = s.directions * s.hidden;
    const int64_t masked = needs.dropout ? (s.layers - 1) * rows * width : 0;
    const int64_t back = needs.backward ? 1 : 0;
    Scratch scratch(memory);
    turned = scratch.take<T>(s.layers * s.directions * s.hidden * turned_pitch(s));
    in = scratch.take<T>(masked);
    mask = scratch.take<T>(masked);
    out = scratch.take<T>(s.layers * rows * width);
    gates = scratch.take<T>(s.layers * s.directions * rows * s.gates());
    cells = scratch.take<T>(s.layers * s.directions * rows * s.hidden);
    dh = scratch.take<T>(back * s.directions * s.state());
    dc = scratch.take<T>(back * s.directions * s.state());
    dgates = scratch.take<T>(back * s.directions * rows * s.gates());
    dout = scratch.take<T>(back * rows * std::max(width, s.input));
    din = scratch.take<T>(back * rows * std::max(width, s.input));
    bytes = scratch.bytes();
  }
};

// All layers, phase by phase: each phase is cut by sizes alone and needs all of the one before it.
// Nothing is kept between the op and its gradient: the gradient runs the layers again, with the
// same dropout, as both draw from the stream of Out.
template <class T>
class StackedLstm {
 public:
  struct Operands {
    const T *x, *w, *h0, *c0;
    bool dropped = false;
  };
  StackedLstm(const LstmSizes& sizes, const Product<T>& product, const StackedLstmMemory<T>& memory,
              const Operands& given)
      : s_(sizes), product_(product), memory_(memory), in_(given) {}

  // Of [0, n): this part's.
  struct Range {
    int64_t begin, end;
  };

  // Columns of gates, of the matrices from the hidden state.
  void turn(Range columns) const {
    const int64_t pitch = turned_pitch(s_);
    for (int64_t l = 0; l < s_.layers; ++l) {
      for (int64_t d = 0; d < s_.directions; ++d) {
        const T* from = in_.w + s_.from_hidden(l, d) + columns.begin * s_.hidden;
        T* to = turned(l, d) + columns.begin;
        if constexpr (std::is_same_v<T, float>) {
          turn_rows({from, columns.end - columns.begin, s_.hidden, s_.hidden}, to, pitch);
        } else {
          for (int64_t i = 0; i < columns.end - columns.begin; ++i) {
            for (int64_t j = 0; j < s_.hidden; ++j) to[j * pitch + i] = from[i * s_.hidden + j];
          }
        }
      }
    }
  }

  // Rows of what the layer before gives, some of it dropped.
  void drop_out(int64_t l, Range rows, double drop, const Philox& numbers) const {
    const int64_t width = s_.width(l), first = (l - 1) * s_.time * s_.batch * width;
    const auto kept = static_cast<T>(1 / (1 - drop));
    const T* from = layer(l - 1).out;
    for (int64_t i = rows.begin * width; i < rows.end * width; ++i) {
      const T mask = numbers.uniform(static_cast<uint64_t>(first + i)) < drop ? T{0} : kept;
      memory_.mask[first + i] = mask;
      memory_.in[first + i] = from[i] * mask;
    }
  }

  // Rows of the gates' sums: the biases, and what comes from the input.
  void project(int64_t l, Range rows) const {
    const int64_t n = s_.gates(), width = s_.width(l);
    const Layer at = layer(l);
    for (int64_t d = 0; d < s_.directions; ++d) {
      const T* bias = in_.w + s_.bias(l, d);
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        vectorised([=, to = at.gates[d] + row * n] {
          for (int64_t j = 0; j < n; ++j) to[j] = bias[j] + bias[n + j];
        });
      }
      product_(Gemm<T>{.m = s_.time * s_.batch,
                       .n = n,
                       .k = width,
                       .a = at.in,
                       .lda = width,
                       .b = in_.w + s_.from_input(l, d),
                       .ldb = width,
                       .trans_b = true,
                       .c = at.gates[d],
                       .ldc = n,
                       .beta = 1}
                   .rows(rows.begin, rows.end));
    }
  }

  // Sequences of a batch, through all steps of one layer and direction.
  void run(int64_t l, int64_t d, Range sequences) const {
    const int64_t n = s_.gates(), hidden = s_.hidden;
    const Layer at = layer(l);
    for (int64_t step = 0; step < s_.time; ++step) {
      const int64_t t = time_at(d, step);
      const State h = hidden_before(at, l, d, step);
      T* sums = at.gates[d] + (t * s_.batch + sequences.begin) * n;
      product_({.m = sequences.end - sequences.begin,
                .n = n,
                .k = hidden,
                .a = h.at + sequences.begin * h.pitch,
                .lda = h.pitch,
                .b = turned(l, d),
                .ldb = turned_pitch(s_),
                .c = sums,
                .ldc = n,
                .beta = 1});
      for (int64_t i = sequences.begin; i < sequences.end; ++i) {
        T* gates = at.gates[d] + (t * s_.batch + i) * n;
        activate_row(Activation::sigmoid, gates, 2 * hidden);
        activate_row(Activation::tanh, gates + 2 * hidden, hidden);
        activate_row(Activation::sigmoid, gates + 3 * hidden, hidden);
        T* cell = at.cells[d] + (t * s_.batch + i) * hidden;
        T* out = hidden_at(at, t, d) + i * s_.directions * hidden;
        vectorised([=, old = cell_before(at, l, d, step) + i * hidden] {
          for (int64_t j = 0; j < hidden; ++j) {
            cell[j] = gates[hidden + j] * old[j] + gates[j] * gates[2 * hidden + j];
            out[j] = gates[3 * hidden + j] * activate(Activation::tanh, cell[j]);
          }
        });
      }
    }
  }

  const T* out() const { return layer(s_.layers - 1).out; }
  void last_states(T* h, T* c) const {
    for (int64_t l = 0; l < s_.layers; ++l) {
      for (int64_t d = 0; d < s_.directions; ++d) {
        const Layer at = layer(l);
        const State last = hidden_before(at, l, d, s_.time);
        const T* cell = cell_before(at, l, d, s_.time);
        const int64_t to = (l * s_.directions + d) * s_.state();
        for (int64_t i = 0; h && i < s_.batch; ++i) {
          std::copy_n(last.at + i * last.pitch, s_.hidden, h + to + i * s_.hidden);
        }
        if (c) std::copy_n(cell, s_.state(), c + to);
      }
    }
  }

  struct Grads {
    const T *dout, *dlast_h, *dlast_c;  // may be null
    T *dx, *dw, *dh0, *dc0;             // may be null
  };

  // The steps backwards, for sequences of one layer and direction.
  void run_back(int64_t l, int64_t d, Range sequences, const Grads& g) const {
    const int64_t n = s_.gates(), hidden = s_.hidden, width = s_.directions * hidden;
    const int64_t count = sequences.end - sequences.begin;
    const int64_t first = sequences.begin * hidden;
    const int64_t state_at = (l * s_.directions + d) * s_.state() + first;
    const Layer at = layer(l);
    const T* dy = l == s_.layers - 1 ? g.dout : arriving(l);
    T *dh = memory_.dh + d * s_.state() + first, *dc = memory_.dc + d * s_.state() + first;
    const auto begin_with = [&](const T* given, T* to) {
      if (given) {
        std::copy_n(given + state_at, count * hidden, to);
      } else {
        std::fill_n(to, count * hidden, T{0});
      }
    };
    begin_with(g.dlast_h, dh);
    begin_with(g.dlast_c, dc);
    for (int64_t step = s_.time - 1; step >= 0; --step) {
      const int64_t t = time_at(d, step);
      for (int64_t i = sequences.begin; i < sequences.end; ++i) {
        const int64_t row = t * s_.batch + i;
        T* const own_dh = dh + (i - sequences.begin) * hidden;
        if (dy) {
          vectorised([=, from = dy + row * width + d * hidden] {
            for (int64_t j = 0; j < hidden; ++j) own_dh[j] += from[j];
          });
        }
        vectorised([=, gates = at.gates[d] + row * n,
                    old = cell_before(at, l, d, step) + i * hidden,
                    cell = at.cells[d] + row * hidden, own_dc = dc + (i - sequences.begin) * hidden,
                    dgates = dgates_of(d) + row * n] {
          for (int64_t j = 0; j < hidden; ++j) {
            const T in = gates[j], forget = gates[hidden + j], candidate = gates[2 * hidden + j],
                    out = gates[3 * hidden + j], active = activate(Activation::tanh, cell[j]);
            const T dcell = own_dc[j] + own_dh[j] * out * slope(Activation::tanh, active);
            dgates[j] = dcell * candidate * slope(Activation::sigmoid, in);
            dgates[hidden + j] = dcell * old[j] * slope(Activation::sigmoid, forget);
            dgates[2 * hidden + j] = dcell * in * slope(Activation::tanh, candidate);
            dgates[3 * hidden + j] = own_dh[j] * active * slope(Activation::sigmoid, out);
            own_dc[j] = dcell * forget;
          }
        });
      }
      product_({.m = count,
                .n = hidden,
                .k = n,
                .a = dgates_of(d) + (t * s_.batch + sequences.begin) * n,
                .lda = n,
                .b = in_.w + s_.from_hidden(l, d),
                .ldb = hidden,
                .c = dh,
                .ldc = hidden});
    }
    if (g.dh0) std::copy_n(dh, count * hidden, g.dh0 + state_at);
    if (g.dc0) std::copy_n(dc, count * hidden, g.dc0 + state_at);
  }

  // Rows of the gradient of what a layer reads.
  void input_grad(int64_t l, Range rows, const Grads& g) const {
    const int64_t n = s_.gates(), width = s_.width(l);
    T* const to = l == 0 ? g.dx : arriving(l - 1);
    if (!to) return;
    for (int64_t d = 0; d < s_.directions; ++d) {
      product_(Gemm<T>{.m = s_.time * s_.batch,
                       .n = width,
                       .k = n,
                       .a = dgates_of(d),
                       .lda = n,
                       .b = in_.w + s_.from_input(l, d),
                       .ldb = width,
                       .c = to,
                       .ldc = width,
                       .beta = d == 0 ? T{0} : T{1}}
                   .rows(rows.begin, rows.end));
    }
    const T* mask = layer(l).mask;
    for (int64_t i = rows.begin * width; mask && i < rows.end * width; ++i) to[i] *= mask[i];
  }

  // Gates' rows of the gradients of a layer's matrices and biases.
  void weight_grad(int64_t l, Range gates, T* dw) const {
    const int64_t n = s_.gates(), width = s_.width(l), rows = s_.time * s_.batch;
    const Layer at = layer(l);
    if (rows == 0) {
      if (gates.begin == 0) std::fill_n(dw, s_.weights(), T{0});
      return;
    }
    for (int64_t d = 0; d < s_.directions; ++d) {
      const auto product = [&](const T* dgates, int64_t k, const T* b, int64_t pitch,
                               int64_t columns, T beta, T* to) {
        product_(Gemm<T>{.m = n,
                         .n = columns,
                         .k = k,
                         .a = dgates,
                         .lda = n,
                         .trans_a = true,
                         .b = b,
                         .ldb = pitch,
                         .c = to,
                         .ldc = columns,
                         .beta = beta}
                     .rows(gates.begin, gates.end));
      };
      product(dgates_of(d), rows, at.in, width, width, 0, dw + s_.from_input(l, d));
      // The state before each step: the one given, then what the step before it left.
      const State given = hidden_before(at, l, d, 0);
      T* const to = dw + s_.from_hidden(l, d);
      product(dgates_of(d) + time_at(d, 0) * s_.batch * n, s_.batch, given.at, given.pitch,
              s_.hidden, 0, to);
      if (s_.time > 1) {
        const int64_t later = std::min(time_at(d, 1), time_at(d, s_.time - 1));
        const int64_t before = std::min(time_at(d, 0), time_at(d, s_.time - 2));
        product(dgates_of(d) + later * s_.batch * n, (s_.time - 1) * s_.batch,
                hidden_at(at, before, d), s_.directions * s_.hidden, s_.hidden, 1, to);
      }
      T* const dbias = dw + s_.bias(l, d) + gates.begin;
      sum_rows(rows, gates.end - gates.begin, dgates_of(d) + gates.begin, dbias, n);
      std::copy_n(dbias, gates.end - gates.begin, dbias + n);
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
    const bool masked = l > 0 && in_.dropped;
    Layer at{};
    at.in = l == 0   ? in_.x
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
  T* turned(int64_t l, int64_t d) const {
    return memory_.turned + (l * s_.directions + d) * s_.hidden * turned_pitch(s_);
  }
  T* dgates_of(int64_t d) const { return memory_.dgates + d * s_.time * s_.batch * s_.gates(); }
  // The gradient of a layer's `out`, from the layer above.
  T* arriving(int64_t l) const { return (s_.layers - l) % 2 == 0 ? memory_.dout : memory_.din; }

  int64_t time_at(int64_t direction, int64_t step) const {
    return direction == 0 ? step : s_.time - 1 - step;
  }
  // [batch, hidden] at a time; in `out` the directions stand side by side.
  T* hidden_at(const Layer& layer, int64_t t, int64_t d) const {
    return layer.out + (t * s_.batch * s_.directions + d) * s_.hidden;
  }
  struct State {
    const T* at;
    int64_t pitch;
  };
  State hidden_before(const Layer& layer, int64_t l, int64_t d, int64_t step) const {
    if (step == 0) return {in_.h0 + (l * s_.directions + d) * s_.state(), s_.hidden};
    return {hidden_at(layer, time_at(d, step - 1), d), s_.directions * s_.hidden};
  }
  const T* cell_before(const Layer& layer, int64_t l, int64_t d, int64_t step) const {
    return step == 0 ? in_.c0 + (l * s_.directions + d) * s_.state()
                     : layer.cells[d] + time_at(d, step - 1) * s_.state();
  }

  LstmSizes s_;
  Product<T> product_;
  StackedLstmMemory<T> memory_;
  Operands in_;
};

}  // namespace trireme
