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
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/gemm_kernel.h"
#include "cpu/staging.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/scratch.h"

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

// Groups of sequences run beside each other. Backwards, what they leave is brought together
// afterwards.
template <class T>
struct LstmRecurrence {
  Steps steps;
  int64_t width, state;  // D, and the width of r
  bool peephole, projected;
  Activation gate, cell, candidate, projection = Activation::identity;
  T cell_clip = 0, projection_clip = 0;
  Product<T> product;

  BoundKernel forward_kernel(std::function<const T*(const KernelArgs&)> input,
                             std::function<LstmData<T>(const KernelArgs&)> in,
                             std::function<LstmRows<T>(const KernelArgs&)> out) const;
  BoundKernel backward_kernel(std::function<LstmData<T>(const KernelArgs&)> in,
                              std::function<LstmRows<const T>(const KernelArgs&)> kept,
                              std::function<LstmGrads<T>(const KernelArgs&)> grads) const;

  // Of one row of a step, `count` neighbours: their sums, in the four blocks of `gates`, become the
  // gates; c changes to the cell after the step. Blocks, also those of `peep`, are `width` apart.
  void cell_forward(int64_t count, const T* peep, T* c, T* gates, T* active, T* h) const;

 private:
  using Group = Steps::Group;
  int groups() const { return steps.groups(); }

  // Memory of a run, by place of the sequence.
  struct Running {
    T *r, *c, *sums, *h;
  };
  Running running(Scratch& room) const {
    const int64_t n = steps.sequences();
    Running memory{};
    memory.r = room.take<T>(n * state);
    memory.c = room.take<T>(n * width);
    memory.sums = room.take<T>(n * 4 * width);
    memory.h = room.take<T>(projected ? n * width : 0);
    return memory;
  }
  // Memory that the phases of the gradient share. Rows of the turned weight and of dsums lie at
  // pitches that products run well over.
  int64_t turned_pitch() const { return staging_pitch(state); }
  int64_t dsums_pitch() const { return staging_pitch(4 * width); }
  int64_t zero_count() const { return std::max(3 * width, state); }
  struct Shared {
    T *weight_turned, *dsums, *r_before, *dprojected;
    T *dpeep, *zeros;             // by group
    T *dr, *dc, *dh, *step_sums;  // by place of the sequence
  };
  Shared shared(Scratch& room) const;
  Shared shared_at(std::byte* scratch) const {
    Scratch room(scratch);
    return shared(room);
  }

  void forward(const Group& group, const T* input, const LstmData<T>& in, const LstmRows<T>& out,
               const Running& memory) const;
  const T* before(int64_t slot, int64_t step, int64_t columns, const T* rows, const T* given,
                  const T* zeros) const {
    return state_before(steps, slot, step, columns, rows, given, zeros);
  }
  void backward(const Group& group, const LstmData<T>& in, const LstmRows<const T>& kept,
                const LstmGrads<T>& grads, const Shared& memory) const;
  // Part `index` of `count` of what is left when all groups are through.
  void bring_together(int64_t index, int64_t count, const LstmRows<const T>& kept,
                      const LstmGrads<T>& grads, const Shared& memory) const;

  static T clipped(T value, T clip) { return clip > 0 ? std::clamp(value, -clip, clip) : value; }
  static bool was_clipped(T value, T clip) { return clip > 0 && std::abs(value) >= clip; }
  // The gradients of h and c after the step in; dc changes to that before it. Adds to dpeep.
  void cell_backward(const T* gates, const T* peep, const T* c_old, const T* c, const T* active,
                     const T* dh, T* dc, T* dsums, T* dpeep) const;
};

template <class T>
void LstmRecurrence<T>::cell_forward(int64_t count, const T* peep, T* c, T* gates, T* active,
                                     T* h) const {
  const int64_t d = width;
  if (peephole) {
    vectorised([=] {
      for (int64_t j = 0; j < count; ++j) {
        gates[d + j] += peep[j] * c[j];
        gates[2 * d + j] += peep[d + j] * c[j];
      }
    });
  }
  activate_row(candidate, gates, count);
  activate_row(gate, gates + d, count);
  activate_row(gate, gates + 2 * d, count);
  vectorised([=, clip = cell_clip] {
    for (int64_t j = 0; j < count; ++j) {
      c[j] = clipped(gates[2 * d + j] * c[j] + gates[d + j] * gates[j], clip);
    }
  });
  if (peephole) {
    vectorised([=] {
      for (int64_t j = 0; j < count; ++j) gates[3 * d + j] += peep[2 * d + j] * c[j];
    });
  }
  activate_row(gate, gates + 3 * d, count);
  std::copy_n(c, count, active);
  activate_row(cell, active, count);
  vectorised([=] {
    for (int64_t j = 0; j < count; ++j) h[j] = gates[3 * d + j] * active[j];
  });
}

template <class T>
void LstmRecurrence<T>::cell_backward(const T* gates, const T* peep, const T* c_old, const T* c,
                                      const T* active, const T* dh, T* dc, T* dsums,
                                      T* dpeep) const {
  const int64_t d = width;
  const auto run = [=, clip = cell_clip](auto of_gate, auto of_cell, auto of_candidate) {
    vectorised([=] {
      for (int64_t j = 0; j < d; ++j) {
        const T g = gates[j], i = gates[d + j], f = gates[2 * d + j], o = gates[3 * d + j];
        const T d_o = dh[j] * active[j] * slope<T>(of_gate, o);
        T all = dc[j] + dh[j] * o * slope<T>(of_cell, active[j]) + d_o * peep[2 * d + j];
        all = was_clipped(c[j], clip) ? T{0} : all;
        const T d_i = all * g * slope<T>(of_gate, i);
        const T d_f = all * c_old[j] * slope<T>(of_gate, f);
        dc[j] = all * f + d_i * peep[j] + d_f * peep[d + j];
        dsums[j] = all * i * slope<T>(of_candidate, g);
        dsums[d + j] = d_i;
        dsums[2 * d + j] = d_f;
        dsums[3 * d + j] = d_o;
      }
    });
  };
  // The usual activations get a loop of their own; it alone is fast.
  constexpr std::integral_constant<Activation, Activation::sigmoid> sigmoid;
  constexpr std::integral_constant<Activation, Activation::tanh> tanh;
  if (gate == sigmoid && cell == tanh && candidate == tanh) {
    run(sigmoid, tanh, tanh);
  } else {
    run(gate, cell, candidate);
  }
  if (!peephole) return;
  vectorised([=] {
    for (int64_t j = 0; j < d; ++j) {
      dpeep[j] += dsums[d + j] * c_old[j];
      dpeep[d + j] += dsums[2 * d + j] * c_old[j];
      dpeep[2 * d + j] += dsums[3 * d + j] * c[j];
    }
  });
}

template <class T>
void LstmRecurrence<T>::forward(const Group& group, const T* input, const LstmData<T>& in,
                                const LstmRows<T>& out, const Running& memory) const {
  const int64_t d = width, p = state;
  const T* peep = peephole ? in.bias + 4 * d : nullptr;
  T* const r = memory.r + group.begin * p;
  T* const c = memory.c + group.begin * d;
  T* const sums = memory.sums + group.begin * 4 * d;
  T* const h = memory.h + (projected ? group.begin * d : 0);
  first_states(steps, group, p, in.r0, r);
  first_states(steps, group, d, in.c0, c);
  const int64_t count = steps.count(group);
  for (int64_t t = 0; t < count; ++t) {
    const int64_t n = steps.active(group, t);
    product({.m = n,
             .n = 4 * d,
             .k = p,
             .a = r,
             .lda = p,
             .b = in.weight,
             .ldb = 4 * d,
             .c = sums,
             .ldc = 4 * d});
    for (int64_t s = 0; s < n; ++s) {
      const int64_t row = steps.row(group.begin + s, t);
      T* const state_c = c + s * d;
      T* const state_h = (projected ? h : r) + s * d;
      T* const gates = out.gates + row * 4 * d;
      vectorised([=, x = input + row * 4 * d, bias = in.bias, sum = sums + s * 4 * d] {
        for (int64_t j = 0; j < 4 * d; ++j) gates[j] = x[j] + bias[j] + sum[j];
      });
      cell_forward(d, peep, state_c, gates, out.active + row * d, state_h);
      std::copy_n(state_c, d, out.cell + row * d);
      std::copy_n(state_h, d, out.h + row * d);
    }
    if (!projected) continue;
    product(
        {.m = n, .n = p, .k = d, .a = h, .lda = d, .b = in.projection, .ldb = p, .c = r, .ldc = p});
    activate_row(projection, r, n * p);
    for (int64_t i = 0; i < n * p; ++i) r[i] = clipped(r[i], projection_clip);
    for (int64_t s = 0; s < n; ++s) {
      std::copy_n(r + s * p, p, out.r + steps.row(group.begin + s, t) * p);
    }
  }
}

template <class T>
BoundKernel LstmRecurrence<T>::forward_kernel(
    std::function<const T*(const KernelArgs&)> input,
    std::function<LstmData<T>(const KernelArgs&)> in,
    std::function<LstmRows<T>(const KernelArgs&)> out) const {
  BoundKernel kernel(
      [run = *this, input, in, out](const KernelArgs& k) {
        const auto [begin, end] = k.range(run.groups());
        Scratch room(k.scratch);
        const Running memory = run.running(room);
        for (int64_t i = begin; i < end; ++i) {
          run.forward(run.steps.group(i), input(k), in(k), out(k), memory);
        }
      },
      groups());
  Scratch room;
  running(room);
  kernel.scratch = room.bytes();
  return kernel;
}

template <class T>
typename LstmRecurrence<T>::Shared LstmRecurrence<T>::shared(Scratch& room) const {
  const int64_t rows = steps.rows(), sequences = steps.sequences();
  Shared memory{};
  memory.weight_turned = room.take<T>(4 * width * turned_pitch());
  memory.dsums = room.take<T>(rows * dsums_pitch());
  memory.r_before = room.take<T>(rows * state);
  memory.dprojected = room.take<T>(projected ? rows * state : 0);
  memory.dpeep = room.take<T>(peephole ? groups() * 3 * width : 0);
  memory.zeros = room.take<T>(groups() * zero_count());
  memory.dr = room.take<T>(sequences * state);
  memory.dc = room.take<T>(sequences * width);
  memory.dh = room.take<T>(sequences * width);
  memory.step_sums = room.take<T>(sequences * 4 * width);
  return memory;
}

// The steps from the last to the first. dr and dc are the gradients of the state after a step and
// leave it as those of the state before.
template <class T>
void LstmRecurrence<T>::backward(const Group& group, const LstmData<T>& in,
                                 const LstmRows<const T>& kept, const LstmGrads<T>& grads,
                                 const Shared& memory) const {
  const int64_t d = width, p = state;
  T* const zeros = memory.zeros + group.index * zero_count();
  std::fill_n(zeros, zero_count(), T{0});
  const T* peep = peephole ? in.bias + 4 * d : zeros;
  T* const dpeep = peephole ? memory.dpeep + group.index * 3 * d : nullptr;
  if (peephole) std::fill_n(dpeep, 3 * d, T{0});
  T* const dr = memory.dr + group.begin * p;
  T* const dc = memory.dc + group.begin * d;
  T* const dh = memory.dh + group.begin * d;
  T* const dsums = memory.step_sums + group.begin * 4 * d;
  std::fill_n(dr, group.size() * p, T{0});
  std::fill_n(dc, group.size() * d, T{0});
  for (int64_t t = steps.count(group) - 1; t >= 0; --t) {
    const int64_t n = steps.active(group, t);
    for (int64_t s = 0; s < n; ++s) {
      const int64_t row = steps.row(group.begin + s, t);
      const T* r_old = before(group.begin + s, t, p, kept.r, in.r0, zeros);
      std::copy_n(r_old, p, memory.r_before + row * p);
      T* const own = dr + s * p;
      if (grads.dr) {
        vectorised([=, from = grads.dr + row * p] {
          for (int64_t j = 0; j < p; ++j) own[j] += from[j];
        });
      }
      for (int64_t j = 0; projected && j < p; ++j) {
        const T r = kept.r[row * p + j];
        own[j] *= was_clipped(r, projection_clip) ? T{0} : slope(projection, r);
        memory.dprojected[row * p + j] = own[j];
      }
      for (int64_t j = 0; grads.dcell && j < d; ++j) {
        dc[s * d + j] += grads.dcell[row * d + j];
      }
    }
    if (projected) {
      product({.m = n,
               .n = d,
               .k = p,
               .a = dr,
               .lda = p,
               .b = in.projection,
               .ldb = p,
               .trans_b = true,
               .c = dh,
               .ldc = d});
    } else {
      std::copy_n(dr, n * d, dh);
    }
    for (int64_t s = 0; s < n; ++s) {
      const int64_t row = steps.row(group.begin + s, t);
      const T* c_old = before(group.begin + s, t, d, kept.cell, in.c0, zeros);
      cell_backward(kept.gates + row * 4 * d, peep, c_old, kept.cell + row * d,
                    kept.active + row * d, dh + s * d, dc + s * d, dsums + s * 4 * d, dpeep);
      const T* const own = dsums + s * 4 * d;
      std::copy_n(own, 4 * d, memory.dsums + row * dsums_pitch());
      if (grads.dinput) std::copy_n(own, 4 * d, grads.dinput + row * 4 * d);
    }
    product({.m = n,
             .n = p,
             .k = 4 * d,
             .a = dsums,
             .lda = 4 * d,
             .b = memory.weight_turned,
             .ldb = turned_pitch(),
             .c = dr,
             .ldc = p});
  }
  for (int64_t s = 0; s < group.size(); ++s) {
    const int64_t sequence = steps.sequence(group.begin + s);
    if (grads.dr0) std::copy_n(dr + s * p, p, grads.dr0 + sequence * p);
    if (grads.dc0) std::copy_n(dc + s * d, d, grads.dc0 + sequence * d);
  }
}

// The weights' gradients are products over all rows, cut by their own rows.
template <class T>
void LstmRecurrence<T>::bring_together(int64_t index, int64_t count, const LstmRows<const T>& kept,
                                       const LstmGrads<T>& grads, const Shared& memory) const {
  const int64_t d = width, p = state, rows = steps.rows();
  const auto own = [=](int64_t n) { return part_of(n, index, count); };
  if (grads.dweight) {
    const auto [begin, end] = own(p);
    product(Gemm<T>{.m = p,
                    .n = 4 * d,
                    .k = rows,
                    .a = memory.r_before,
                    .lda = p,
                    .trans_a = true,
                    .b = memory.dsums,
                    .ldb = dsums_pitch(),
                    .c = grads.dweight,
                    .ldc = 4 * d}
                .rows(begin, end));
  }
  if (grads.dprojection) {
    const auto [begin, end] = own(d);
    product(Gemm<T>{.m = d,
                    .n = p,
                    .k = rows,
                    .a = kept.h,
                    .lda = d,
                    .trans_a = true,
                    .b = memory.dprojected,
                    .ldb = p,
                    .c = grads.dprojection,
                    .ldc = p}
                .rows(begin, end));
  }
  if (!grads.dbias) return;
  const auto [begin, end] = own(4 * d);
  sum_rows(rows, end - begin, memory.dsums + begin, grads.dbias + begin, dsums_pitch());
  if (peephole && index == 0) sum_rows(groups(), 3 * d, memory.dpeep, grads.dbias + 4 * d);
}

template <class T>
BoundKernel LstmRecurrence<T>::backward_kernel(
    std::function<LstmData<T>(const KernelArgs&)> in,
    std::function<LstmRows<const T>(const KernelArgs&)> kept,
    std::function<LstmGrads<T>(const KernelArgs&)> grads) const {
  constexpr int kPieces = 8;
  // The weight is turned once: every step multiplies by it, and a product with a transposed operand
  // would turn it each time.
  BoundKernel kernel(
      [run = *this, in](const KernelArgs& k) {
        const int64_t p = run.state, columns = 4 * run.width;
        const auto [begin, end] = k.range(columns);
        const int64_t pitch = run.turned_pitch();
        const T* from = in(k).weight + begin;
        T* to = run.shared_at(k.scratch).weight_turned + begin * pitch;
        if constexpr (std::is_same_v<T, float>) {
          turn_rows({from, p, end - begin, columns}, to, pitch);
        } else {
          for (int64_t i = 0; i < p; ++i) {
            for (int64_t j = 0; j < end - begin; ++j) to[j * pitch + i] = from[i * columns + j];
          }
        }
      },
      kPieces);
  Scratch room;
  shared(room);
  kernel.scratch = room.bytes();
  kernel.packed = static_cast<size_t>(4 * width * turned_pitch()) * sizeof(T);
  kernel.then.emplace_back(
      [run = *this, in, kept, grads](const KernelArgs& k) {
        const auto [begin, end] = k.range(run.groups());
        for (int64_t i = begin; i < end; ++i) {
          run.backward(run.steps.group(i), in(k), kept(k), grads(k), run.shared_at(k.scratch));
        }
      },
      groups());
  const int pieces = static_cast<int>(std::clamp<int64_t>(std::min(width, state) / 16, 1, kPieces));
  kernel.then.emplace_back(
      [run = *this, kept, grads, pieces](const KernelArgs& k) {
        const auto [begin, end] = k.range(pieces);
        for (int64_t i = begin; i < end; ++i) {
          run.bring_together(i, pieces, kept(k), grads(k), run.shared_at(k.scratch));
        }
      },
      pieces);
  return kernel;
}

}  // namespace trireme
