// One step of a gated recurrent unit, forwards and backwards, for gru and gru_unit.
//
// Columns of Input, Bias and the kept gates come in three blocks of width D: update, reset,
// candidate. Weight holds D * 3D numbers: first a matrix of D x 2D for update and reset, then one
// of D x D for the candidate; it is not a D x 3D matrix cut by columns.
//
//   u = gate(x_u + h' W_u + b_u)
//   r = gate(x_r + h' W_r + b_r)
//   c = act(x_c + (r * h') W_c + b_c)
//   h = u * c + (1 - u) * h', or with origin_mode h = u * h' + (1 - u) * c
#pragma once

#include "ops/gemm_kernel.h"
#include "ops/recurrent_rules.h"

namespace trireme {

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

  // dh: the gradient of h. Leaves the gradients before activation in dgates, that of h' in dh_old
  // and that of r * h' in dreset_h.
  void backward(int64_t n, const T* weight, const T* h_old, const T* gates, const T* dh, T* dgates,
                T* dh_old, T* dreset_h) const {
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
    product({.m = n,
             .n = d,
             .k = d,
             .a = dgates + 2 * d,
             .lda = 3 * d,
             .b = weight + 2 * d * d,
             .ldb = d,
             .trans_b = true,
             .c = dreset_h,
             .ldc = d});
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t j = 0; j < d; ++j) {
        const T r = gates[s * 3 * d + d + j], dr = dreset_h[s * d + j];
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

// D, after checking Input [n, 3D], Weight [D, 3D] and Bias [1, 3D].
Dim gru_width(const OpView& op);

}  // namespace trireme
