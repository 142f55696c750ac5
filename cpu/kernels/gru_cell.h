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

#include "cpu/gemm_kernel.h"
#include "cpu/staging.h"
#include "ops/recurrent/recurrent_rules.h"

namespace trireme {

template <class T>
struct GruCell {
  int64_t width;
  Activation gate, candidate;
  bool origin_mode;
  Product<T> product;

  // The weight as it is stored, and where a copy of its two matrices turned over was made, that:
  // [3D, turned_pitch()].
  struct Weight {
    const T* stored;
    const T* turned = nullptr;
  };
  int64_t turned_pitch() const { return staging_pitch(width); }
  // Rows [begin, end) of the copy.
  void turn(const T* weight, int64_t begin, int64_t end, T* turned) const;

  // One step for n rows, each operand given as contiguous rows. `gates` comes in as Input plus bias
  // and leaves as u, r, c.
  void forward(int64_t n, const T* weight, const T* h_old, T* gates, T* reset_h, T* h) const;

  // dh: the gradient of h. Leaves the gradients before activation in dgates, that of h' in dh_old
  // and that of r * h' in dreset_h.
  void backward(int64_t n, const Weight& weight, const T* h_old, const T* gates, const T* dh,
                T* dgates, T* dh_old, T* dreset_h) const;

  // Rows [begin, end) of both matrices of the weight's gradient, over all n rows at once. `pitch`:
  // between rows of dgates.
  void weight_grad(int64_t n, const T* h_old, const T* reset_h, const T* dgates, int64_t pitch,
                   int64_t begin, int64_t end, T* dweight) const;

 private:
  // to = from * W' for the rows' columns [first, first + k) of the gates.
  void times_turned(int64_t n, const Weight& weight, const T* from, int64_t first, int64_t k,
                    T beta, T* to) const {
    const int64_t d = width;
    const bool turned = weight.turned != nullptr;
    product({.m = n,
             .n = d,
             .k = k,
             .a = from + first,
             .lda = 3 * d,
             .b = turned ? weight.turned + first * turned_pitch() : weight.stored + first * d,
             .ldb = turned ? turned_pitch() : k,
             .trans_b = !turned,
             .c = to,
             .ldc = d,
             .beta = beta});
  }
  // f(gate, candidate): the usual activations get a loop of their own; it alone is fast.
  template <class F>
  void with_activations(const F& f) const {
    constexpr std::integral_constant<Activation, Activation::sigmoid> sigmoid;
    constexpr std::integral_constant<Activation, Activation::tanh> tanh;
    if (gate == sigmoid && candidate == tanh) {
      f(sigmoid, tanh);
    } else {
      f(gate, candidate);
    }
  }
};

template <class T>
void GruCell<T>::turn(const T* weight, int64_t begin, int64_t end, T* turned) const {
  const int64_t d = width, pitch = turned_pitch();
  const auto turn_columns = [&](const T* matrix, int64_t columns, int64_t first, int64_t from,
                                int64_t to) {
    if (from >= to) return;
    T* const target = turned + (first + from) * pitch;
    if constexpr (std::is_same_v<T, float>) {
      turn_rows({matrix + from, d, to - from, columns}, target, pitch);
    } else {
      for (int64_t i = 0; i < d; ++i) {
        for (int64_t j = from; j < to; ++j)
          target[(j - from) * pitch + i] = matrix[i * columns + j];
      }
    }
  };
  turn_columns(weight, 2 * d, 0, begin, std::min(end, 2 * d));
  turn_columns(weight + 2 * d * d, d, 2 * d, std::max<int64_t>(begin - 2 * d, 0), end - 2 * d);
}

template <class T>
void GruCell<T>::forward(int64_t n, const T* weight, const T* h_old, T* gates, T* reset_h,
                         T* h) const {
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
    activate_row(gate, gates + s * 3 * d, 2 * d);
    vectorised([=, r = gates + s * 3 * d + d, old = h_old + s * d, to = reset_h + s * d] {
      for (int64_t j = 0; j < d; ++j) to[j] = r[j] * old[j];
    });
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
    const T* g = gates + s * 3 * d;
    activate_row(candidate, gates + s * 3 * d + 2 * d, d);
    vectorised([=, old = h_old + s * d, to = h + s * d, keeps = origin_mode] {
      for (int64_t j = 0; j < d; ++j) {
        const T u = g[j], c = g[2 * d + j];
        to[j] = keeps ? u * old[j] + (1 - u) * c : u * c + (1 - u) * old[j];
      }
    });
  }
}

template <class T>
void GruCell<T>::backward(int64_t n, const Weight& weight, const T* h_old, const T* gates,
                          const T* dh, T* dgates, T* dh_old, T* dreset_h) const {
  const int64_t d = width;
  with_activations([&](auto of_gate, auto of_candidate) {
    for (int64_t s = 0; s < n; ++s) {
      vectorised([=, g = gates + s * 3 * d, dg = dgates + s * 3 * d, h = h_old + s * d,
                  arriving = dh + s * d, left = dh_old + s * d, keeps = origin_mode] {
        for (int64_t j = 0; j < d; ++j) {
          const T u = g[j], c = g[2 * d + j], old = h[j], top = arriving[j];
          const T du = keeps ? old - c : c - old, dc = keeps ? 1 - u : u;
          dg[j] = top * du * slope<T>(of_gate, u);
          dg[2 * d + j] = top * dc * slope<T>(of_candidate, c);
          left[j] = top * (1 - dc);
        }
      });
    }
  });
  times_turned(n, weight, dgates, 2 * d, d, 0, dreset_h);
  with_activations([&](auto of_gate, auto) {
    for (int64_t s = 0; s < n; ++s) {
      vectorised([=, r = gates + s * 3 * d + d, dr = dreset_h + s * d, h = h_old + s * d,
                  dg = dgates + s * 3 * d + d, left = dh_old + s * d] {
        for (int64_t j = 0; j < d; ++j) {
          dg[j] = dr[j] * h[j] * slope<T>(of_gate, r[j]);
          left[j] += dr[j] * r[j];
        }
      });
    }
  });
  times_turned(n, weight, dgates, 0, 2 * d, 1, dh_old);
}

template <class T>
void GruCell<T>::weight_grad(int64_t n, const T* h_old, const T* reset_h, const T* dgates,
                             int64_t pitch, int64_t begin, int64_t end, T* dweight) const {
  const int64_t d = width;
  product(Gemm<T>{.m = d,
                  .n = 2 * d,
                  .k = n,
                  .a = h_old,
                  .lda = d,
                  .trans_a = true,
                  .b = dgates,
                  .ldb = pitch,
                  .c = dweight,
                  .ldc = 2 * d}
              .rows(begin, end));
  product(Gemm<T>{.m = d,
                  .n = d,
                  .k = n,
                  .a = reset_h,
                  .lda = d,
                  .trans_a = true,
                  .b = dgates + 2 * d,
                  .ldb = pitch,
                  .c = dweight + 2 * d * d,
                  .ldc = d}
              .rows(begin, end));
}

// Into how many parts products over the weight's rows are cut.
inline int weight_parts(int64_t width) {
  return static_cast<int>(std::clamp<int64_t>(width / 16, 1, 8));
}

template <class T>
void add_bias(const T* x, const T* bias, int64_t n, T* to) {
  vectorised([=] {
    for (int64_t j = 0; j < n; ++j) to[j] = x[j] + (bias ? bias[j] : T{0});
  });
}

}  // namespace trireme
