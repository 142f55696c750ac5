// Kernels of gru: the steps of its sequences, on each matrix product there is.
#include "cpu/kernels/gru_cell.h"
#include "cpu/kernels/register.h"
#include "ops/scratch.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

template <class T>
GruCell<T> gru_cell(const KernelSite& site, Product<T> product) {
  return {site.in("Weight").shape.at(0), activation_of(site.attr<std::string>("gate_activation")),
          activation_of(site.attr<std::string>("activation")), site.attr<bool>("origin_mode"),
          product};
}

// Arrays of a run, by place of the sequence.
template <class T>
struct GruMemory {
  T *h, *gates, *reset_h, *next;
  size_t bytes;

  GruMemory(const Steps& steps, int64_t d, std::byte* memory) {
    const int64_t n = steps.sequences();
    Scratch scratch(memory);
    h = scratch.take<T>(n * d);
    gates = scratch.take<T>(n * 3 * d);
    reset_h = scratch.take<T>(n * d);
    next = scratch.take<T>(n * d);
    bytes = scratch.bytes();
  }
};

template <class T>
BoundKernel gru(const KernelSite& site, Product<T> product) {
  const int input = site.position("Input"), weight = site.position("Weight");
  const int bias = site.position("Bias"), h0 = site.position("H0");
  const int gate = site.out_position("BatchGate"), hidden = site.out_position("Hidden");
  const int reset = site.out_position("BatchResetHiddenPrev");
  const int kept_hidden = site.out_position("BatchHidden");
  const Steps steps(bound_offsets(site, "Input"), site.attr<bool>("is_reverse"));
  const GruCell<T> cell = gru_cell<T>(site, product);
  const auto run_group = [=](const KernelArgs& k, const Steps::Group& group) {
    const int64_t d = cell.width;
    const T* b = in_or_null<T>(k, bias);
    const GruMemory<T> m(steps, d, k.scratch);
    T *const h = m.h + group.begin * d, *const gates = m.gates + group.begin * 3 * d;
    T *const reset_h = m.reset_h + group.begin * d, *const next = m.next + group.begin * d;
    first_states(steps, group, d, in_or_null<T>(k, h0), h);
    const int64_t count = steps.count(group);
    for (int64_t t = 0; t < count; ++t) {
      const int64_t n = steps.active(group, t);
      for (int64_t s = 0; s < n; ++s) {
        add_bias(k.in<T>(input) + steps.row(group.begin + s, t) * 3 * d, b, 3 * d,
                 gates + s * 3 * d);
      }
      cell.forward(n, k.in<T>(weight), h, gates, reset_h, next);
      for (int64_t s = 0; s < n; ++s) {
        const int64_t row = steps.row(group.begin + s, t);
        std::copy_n(gates + s * 3 * d, 3 * d, k.out<T>(gate) + row * 3 * d);
        std::copy_n(reset_h + s * d, d, k.out<T>(reset) + row * d);
        std::copy_n(next + s * d, d, k.out<T>(hidden) + row * d);
        std::copy_n(next + s * d, d, k.out<T>(kept_hidden) + row * d);
      }
      std::copy_n(next, n * d, h);
    }
  };
  const int groups = steps.groups();
  BoundKernel kernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(groups);
        for (int64_t i = begin; i < end; ++i) run_group(k, steps.group(i));
      },
      groups);
  kernel.scratch = GruMemory<T>(steps, cell.width, nullptr).bytes;
  return kernel;
}

// Arrays of a run: the weight turned over, then by place of the sequence, then by row.
template <class T>
struct GruGradMemory {
  T *turned, *zeros, *dh, *h_old, *dh_old, *dreset_h, *gates, *dgates;
  T *dgates_all, *h_before;
  size_t bytes;

  GruGradMemory(const Steps& steps, const GruCell<T>& cell, std::byte* memory) {
    const int64_t n = steps.sequences(), d = cell.width;
    Scratch scratch(memory);
    turned = scratch.take<T>(3 * d * cell.turned_pitch());
    zeros = scratch.take<T>(steps.groups() * d);
    for (T** state : {&dh, &h_old, &dh_old, &dreset_h}) *state = scratch.take<T>(n * d);
    gates = scratch.take<T>(n * 3 * d);
    dgates = scratch.take<T>(n * 3 * d);
    dgates_all = scratch.take<T>(steps.rows() * pitch(cell));
    h_before = scratch.take<T>(steps.rows() * d);
    bytes = scratch.bytes();
  }
  static int64_t pitch(const GruCell<T>& cell) { return staging_pitch(3 * cell.width); }
};

template <class T>
BoundKernel gru_grad(const KernelSite& site, Product<T> product) {
  const int weight = site.position("Weight"), h0 = site.position("H0");
  const int gate = site.position("BatchGate"), reset = site.position("BatchResetHiddenPrev");
  const int hidden = site.position("Hidden"), dhidden = site.position("Hidden@GRAD");
  const int dinput = site.out_position("Input@GRAD"), dh0 = site.out_position("H0@GRAD");
  const int dweight = site.out_position("Weight@GRAD"), dbias = site.out_position("Bias@GRAD");
  const Steps steps(bound_offsets(site, "Input"), site.attr<bool>("is_reverse"));
  const GruCell<T> cell = gru_cell<T>(site, product);
  using Memory = GruGradMemory<T>;
  const int64_t pitch = Memory::pitch(cell);

  const auto run_group = [=](const KernelArgs& k, const Steps::Group& group) {
    const int64_t d = cell.width;
    const Memory m(steps, cell, k.scratch);
    T* const zeros = m.zeros + group.index * d;
    T *const dh = m.dh + group.begin * d, *const h_old = m.h_old + group.begin * d;
    T *const dh_old = m.dh_old + group.begin * d, *const dreset_h = m.dreset_h + group.begin * d;
    T* const gates = m.gates + group.begin * 3 * d;
    T* const dgates = m.dgates + group.begin * 3 * d;
    std::fill_n(zeros, d, T{0});
    std::fill_n(dh, group.size() * d, T{0});
    for (int64_t t = steps.count(group) - 1; t >= 0; --t) {
      const int64_t n = steps.active(group, t);
      for (int64_t s = 0; s < n; ++s) {
        const int64_t slot = group.begin + s, row = steps.row(slot, t);
        const T* old =
            state_before(steps, slot, t, d, k.in<T>(hidden), in_or_null<T>(k, h0), zeros);
        std::copy_n(old, d, h_old + s * d);
        std::copy_n(old, d, m.h_before + row * d);
        std::copy_n(k.in<T>(gate) + row * 3 * d, 3 * d, gates + s * 3 * d);
        vectorised([to = dh + s * d, from = k.in<T>(dhidden) + row * d, d] {
          for (int64_t j = 0; j < d; ++j) to[j] += from[j];
        });
      }
      cell.backward(n, {k.in<T>(weight), m.turned}, h_old, gates, dh, dgates, dh_old, dreset_h);
      std::copy_n(dh_old, n * d, dh);
      for (int64_t s = 0; s < n; ++s) {
        const int64_t row = steps.row(group.begin + s, t);
        const T* own = dgates + s * 3 * d;
        std::copy_n(own, 3 * d, m.dgates_all + row * pitch);
        if (k.has_out(dinput)) std::copy_n(own, 3 * d, k.out<T>(dinput) + row * 3 * d);
      }
    }
    for (int64_t s = 0; k.has_out(dh0) && s < group.size(); ++s) {
      std::copy_n(dh + s * d, d, k.out<T>(dh0) + steps.sequence(group.begin + s) * d);
    }
  };

  constexpr int kPieces = 8;
  // Every step multiplies by the weight turned over: it is turned once.
  BoundKernel kernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(3 * cell.width);
        cell.turn(k.in<T>(weight), begin, end, Memory(steps, cell, k.scratch).turned);
      },
      kPieces);
  kernel.scratch = Memory(steps, cell, nullptr).bytes;
  kernel.packed = static_cast<size_t>(3 * cell.width * cell.turned_pitch()) * sizeof(T);
  const int groups = steps.groups();
  kernel.then.emplace_back(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(groups);
        for (int64_t i = begin; i < end; ++i) run_group(k, steps.group(i));
      },
      groups);
  const int pieces = weight_parts(cell.width);
  kernel.then.emplace_back(
      [=](const KernelArgs& k) {
        const auto [first, last] = k.range(pieces);
        const Memory m(steps, cell, k.scratch);
        for (int64_t i = first; i < last; ++i) {
          if (k.has_out(dweight)) {
            const auto [begin, end] = part_of(cell.width, i, pieces);
            cell.weight_grad(steps.rows(), m.h_before, k.in<T>(reset), m.dgates_all, pitch, begin,
                             end, k.out<T>(dweight));
          }
          if (k.has_out(dbias)) {
            const auto [begin, end] = part_of(3 * cell.width, i, pieces);
            sum_rows(steps.rows(), end - begin, m.dgates_all + begin, k.out<T>(dbias) + begin,
                     pitch);
          }
        }
      },
      pieces);
  return kernel;
}

}  // namespace

void add_gru_kernels(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_grad<T>(site, product);
  };
  ops.add_kernels("gru", on_products(forward));
  ops.add_kernels("gru_grad", on_products(backward));
}

}  // namespace trireme
