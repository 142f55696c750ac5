// The recurrence behind lstm and lstmp, forwards and backwards.
//
// Columns of the input, the weight, the bias and the gates come in four blocks of width D:
// candidate, input gate, forget gate, output gate. With peepholes the bias continues with three
// more: W_ic, W_fc, W_oc. r is the state that goes from step to step: h itself, or its projection.
//
//   g = candidate(x_c + r' W_c + b_c)
//   i = gate(x_i + r' W_i + b_i + W_ic * c')
//   f = gate(x_f + r' W_f + b_f + W_fc * c')
//   c = clip(f * c' + i * g)
//   o = gate(x_o + r' W_o + b_o + W_oc * c)
//   h = o * cell(c)
//   r = h, or clip(projection(h W_p))
//
// A clip of 0 is none; where a value was clipped no gradient passes.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/gemm_kernel.h"
#include "ops/recurrent_rules.h"

namespace trireme {

// Where a run's operands are. Absent ones are null.
template <class T>
struct LstmData {
  const T *weight = nullptr, *bias = nullptr, *projection = nullptr;
  const T *r0 = nullptr, *c0 = nullptr;
};
// What the forward run leaves, by rows of the input; h and r are one where nothing is projected.
template <class T>
struct LstmRows {
  T *gates = nullptr, *active = nullptr;  // active: the cell after its activation
  T *cell = nullptr, *h = nullptr, *r = nullptr;
};
template <class T>
struct LstmGrads {
  const T *dr = nullptr, *dcell = nullptr;  // what arrives
  T *dinput = nullptr, *dweight = nullptr, *dbias = nullptr, *dprojection = nullptr;
  T *dr0 = nullptr, *dc0 = nullptr;
};

template <class T>
struct LstmRecurrence {
  Steps steps;
  int64_t width, state;  // D, and the width of r
  bool peephole, projected;
  Activation gate, cell, candidate, projection = Activation::identity;
  T cell_clip = 0, projection_clip = 0;
  Product<T> product;

  void forward(const T* input, const LstmData<T>& in, const LstmRows<T>& out) const;
  void backward(const LstmData<T>& in, const LstmRows<const T>& kept,
                const LstmGrads<T>& grads) const;

 private:
  static T clipped(T value, T clip) { return clip > 0 ? std::clamp(value, -clip, clip) : value; }
  static bool was_clipped(T value, T clip) { return clip > 0 && std::abs(value) >= clip; }
  // One row of a step: sums of the four blocks in; c changes to the cell after the step.
  void cell_forward(const T* sums, const T* peep, T* c, T* gates, T* active, T* h) const;
  // The gradients of h and c after the step in; dc changes to that before it. Adds to dpeep.
  void cell_backward(const T* gates, const T* peep, const T* c_old, const T* c, const T* active,
                     const T* dh, T* dc, T* dsums, T* dpeep) const;
};

template <class T>
void LstmRecurrence<T>::cell_forward(const T* sums, const T* peep, T* c, T* gates, T* active,
                                     T* h) const {
  const int64_t d = width;
  for (int64_t j = 0; j < d; ++j) {
    const T g = gates[j] = activate(candidate, sums[j]);
    const T i = gates[d + j] = activate(gate, sums[d + j] + peep[j] * c[j]);
    const T f = gates[2 * d + j] = activate(gate, sums[2 * d + j] + peep[d + j] * c[j]);
    c[j] = clipped(f * c[j] + i * g, cell_clip);
    const T o = gates[3 * d + j] = activate(gate, sums[3 * d + j] + peep[2 * d + j] * c[j]);
    active[j] = activate(cell, c[j]);
    h[j] = o * active[j];
  }
}

template <class T>
void LstmRecurrence<T>::cell_backward(const T* gates, const T* peep, const T* c_old, const T* c,
                                      const T* active, const T* dh, T* dc, T* dsums,
                                      T* dpeep) const {
  const int64_t d = width;
  for (int64_t j = 0; j < d; ++j) {
    const T g = gates[j], i = gates[d + j], f = gates[2 * d + j], o = gates[3 * d + j];
    const T d_o = dh[j] * active[j] * slope(gate, o);
    T all = dc[j] + dh[j] * o * slope(cell, active[j]) + d_o * peep[2 * d + j];
    dpeep[2 * d + j] += d_o * c[j];
    if (was_clipped(c[j], cell_clip)) all = 0;
    const T d_i = all * g * slope(gate, i), d_f = all * c_old[j] * slope(gate, f);
    dc[j] = all * f + d_i * peep[j] + d_f * peep[d + j];
    dsums[j] = all * i * slope(candidate, g);
    dsums[d + j] = d_i;
    dsums[2 * d + j] = d_f;
    dsums[3 * d + j] = d_o;
    dpeep[j] += d_i * c_old[j];
    dpeep[d + j] += d_f * c_old[j];
  }
}

template <class T>
void LstmRecurrence<T>::forward(const T* input, const LstmData<T>& in,
                                const LstmRows<T>& out) const {
  const int64_t d = width, p = state;
  const std::vector<T> zeros(static_cast<size_t>(3 * d));
  const T* peep = peephole ? in.bias + 4 * d : zeros.data();
  std::vector<T> r = first_state(steps, p, in.r0), c = first_state(steps, d, in.c0);
  std::vector<T> sums(c.size() * 4), h(c.size());
  for (int64_t t = 0; t < steps.count(); ++t) {
    const int64_t n = steps.active(t);
    for (int64_t s = 0; s < n; ++s) {
      const T* x = input + steps.row(s, t) * 4 * d;
      std::transform(x, x + 4 * d, in.bias, sums.data() + s * 4 * d, std::plus<T>());
    }
    product({.m = n,
             .n = 4 * d,
             .k = p,
             .a = r.data(),
             .lda = p,
             .b = in.weight,
             .ldb = 4 * d,
             .c = sums.data(),
             .ldc = 4 * d,
             .beta = 1});
    for (int64_t s = 0; s < n; ++s) {
      const int64_t row = steps.row(s, t);
      T* const state_c = c.data() + s * d;
      cell_forward(sums.data() + s * 4 * d, peep, state_c, out.gates + row * 4 * d,
                   out.active + row * d, h.data() + s * d);
      std::copy_n(state_c, d, out.cell + row * d);
      std::copy_n(h.data() + s * d, d, out.h + row * d);
    }
    if (!projected) {
      std::copy_n(h.data(), n * d, r.data());
      continue;
    }
    product({.m = n,
             .n = p,
             .k = d,
             .a = h.data(),
             .lda = d,
             .b = in.projection,
             .ldb = p,
             .c = r.data(),
             .ldc = p});
    for (int64_t i = 0; i < n * p; ++i) {
      T& value = r[static_cast<size_t>(i)];
      value = clipped(activate(projection, value), projection_clip);
    }
    for (int64_t s = 0; s < n; ++s) {
      std::copy_n(r.data() + s * p, p, out.r + steps.row(s, t) * p);
    }
  }
}

// The steps from the last to the first. dr and dc are the gradients of the state after a step and
// leave it as those of the state before. The weights' gradients are products over all rows at the
// end.
template <class T>
void LstmRecurrence<T>::backward(const LstmData<T>& in, const LstmRows<const T>& kept,
                                 const LstmGrads<T>& grads) const {
  const int64_t d = width, p = state, rows = steps.rows();
  const std::vector<T> zeros(static_cast<size_t>(3 * d));
  const T* peep = peephole ? in.bias + 4 * d : zeros.data();
  const std::vector<T> r_first = first_state(steps, p, in.r0);
  const std::vector<T> c_first = first_state(steps, d, in.c0);
  const auto sized = [](int64_t n) { return std::vector<T>(static_cast<size_t>(n)); };
  std::vector<T> dr(r_first.size()), dc(c_first.size()), dh(c_first.size());
  std::vector<T> dsums(c_first.size() * 4), dpeep = sized(3 * d);
  // By rows: gradients of the sums, the state before, gradients of the projection before
  // activation.
  std::vector<T> all_dsums = sized(rows * 4 * d), r_before = sized(rows * p);
  std::vector<T> all_dprojected = sized(projected ? rows * p : 0);
  for (int64_t t = steps.count() - 1; t >= 0; --t) {
    const int64_t n = steps.active(t);
    for (int64_t s = 0; s < n; ++s) {
      const int64_t row = steps.row(s, t);
      const T* r_old = previous(steps, s, t, p, kept.r, r_first);
      std::copy_n(r_old, p, r_before.data() + row * p);
      for (int64_t j = 0; j < p; ++j) {
        T& value = dr[static_cast<size_t>(s * p + j)];
        if (grads.dr) value += grads.dr[row * p + j];
        if (!projected) continue;
        const T r = kept.r[row * p + j];
        value *= was_clipped(r, projection_clip) ? T{0} : slope(projection, r);
        all_dprojected[static_cast<size_t>(row * p + j)] = value;
      }
      for (int64_t j = 0; grads.dcell && j < d; ++j) {
        dc[static_cast<size_t>(s * d + j)] += grads.dcell[row * d + j];
      }
    }
    if (projected) {
      product({.m = n,
               .n = d,
               .k = p,
               .a = dr.data(),
               .lda = p,
               .b = in.projection,
               .ldb = p,
               .trans_b = true,
               .c = dh.data(),
               .ldc = d});
    } else {
      std::copy_n(dr.data(), n * d, dh.data());
    }
    for (int64_t s = 0; s < n; ++s) {
      const int64_t row = steps.row(s, t);
      const T* c_old = previous(steps, s, t, d, kept.cell, c_first);
      cell_backward(kept.gates + row * 4 * d, peep, c_old, kept.cell + row * d,
                    kept.active + row * d, dh.data() + s * d, dc.data() + s * d,
                    dsums.data() + s * 4 * d, dpeep.data());
      std::copy_n(dsums.data() + s * 4 * d, 4 * d, all_dsums.data() + row * 4 * d);
    }
    product({.m = n,
             .n = p,
             .k = 4 * d,
             .a = dsums.data(),
             .lda = 4 * d,
             .b = in.weight,
             .ldb = 4 * d,
             .trans_b = true,
             .c = dr.data(),
             .ldc = p});
  }
  if (grads.dinput) std::copy(all_dsums.begin(), all_dsums.end(), grads.dinput);
  if (grads.dr0) store_state(steps, p, dr, grads.dr0);
  if (grads.dc0) store_state(steps, d, dc, grads.dc0);
  if (grads.dweight) {
    product({.m = p,
             .n = 4 * d,
             .k = rows,
             .a = r_before.data(),
             .lda = p,
             .trans_a = true,
             .b = all_dsums.data(),
             .ldb = 4 * d,
             .c = grads.dweight,
             .ldc = 4 * d});
  }
  if (grads.dprojection) {
    product({.m = d,
             .n = p,
             .k = rows,
             .a = kept.h,
             .lda = d,
             .trans_a = true,
             .b = all_dprojected.data(),
             .ldb = p,
             .c = grads.dprojection,
             .ldc = p});
  }
  if (grads.dbias) {
    sum_rows(rows, 4 * d, all_dsums.data(), grads.dbias);
    if (peephole) std::copy(dpeep.begin(), dpeep.end(), grads.dbias + 4 * d);
  }
}

}  // namespace trireme
