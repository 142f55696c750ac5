// Kernels of gru_unit: one step, on each matrix product there is.
#include "cpu/kernels/gru_cell.h"
#include "cpu/kernels/register.h"
#include "ops/scratch.h"

namespace trireme {
namespace {

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

}  // namespace

void add_gru_unit_kernels(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_unit<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return gru_unit_grad<T>(site, product);
  };
  ops.add_kernels("gru_unit", on_products(forward));
  ops.add_kernels("gru_unit_grad", on_products(backward));
}

}  // namespace trireme
