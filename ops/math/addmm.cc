// addmm: a matrix added to the product of two.
#include "cpu/gemm_kernel.h"
#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// Out [rows, columns] = Alpha * X [rows, inner] * Y [inner, columns] + Beta * Input, which
// broadcasts.
struct AddedProduct {
  int64_t rows, columns, inner, input_rows, input_columns;
  float alpha, beta;
  explicit AddedProduct(const KernelSite& site)
      : rows(site.in("X").shape.at(0)),
        columns(site.in("Y").shape.at(1)),
        inner(site.in("X").shape.at(1)),
        input_rows(site.in("Input").shape.at(0)),
        input_columns(site.in("Input").shape.at(1)),
        alpha(site.attr<float>("Alpha")),
        beta(site.attr<float>("Beta")) {}
  int64_t in_input(int64_t row, int64_t column) const {
    return (input_rows == 1 ? 0 : row) * input_columns + (input_columns == 1 ? 0 : column);
  }
};

void addmm_shape(OpView& op) {
  require_floating(op, "X");
  const Shape &input = op.in("Input").shape, &x = op.in("X").shape, &y = op.in("Y").shape;
  if (input.rank() != 2 || x.rank() != 2 || y.rank() != 2 || !x[1].may_equal(y[0])) {
    throw op.error(cat("Input has shape ", input, ", X ", x, " and Y ", y))
        .fix("give matrices, Y as many rows as X has columns");
  }
  const auto fits = [](Dim own, Dim wanted) { return own.may_equal(wanted) || own.may_equal(1); };
  if (!fits(input[0], x[0]) || !fits(input[1], y[1])) {
    throw op.error(cat("Input has shape ", input, " but the product ", Shape{x[0], y[1]}))
        .fix("give Input the product's shape, or extents of 1");
  }
  op.set_out("Out", op.in("X").dtype, {x[0], y[1]});
}

template <class T>
BoundKernel addmm(const KernelSite& site, Product<T> product) {
  const AddedProduct s(site);
  const int input_at = site.position("Input"), x_at = site.position("X"), y_at = site.position("Y");
  return BoundKernel([=](const KernelArgs& k) {
    for (int64_t at = 0; at < s.rows * s.columns; ++at) {
      k.out<T>(0)[at] = k.in<T>(input_at)[s.in_input(at / s.columns, at % s.columns)];
    }
    product({.m = s.rows,
             .n = s.columns,
             .k = s.inner,
             .a = k.in<T>(x_at),
             .lda = s.inner,
             .b = k.in<T>(y_at),
             .ldb = s.columns,
             .c = k.out<T>(0),
             .ldc = s.columns,
             .alpha = static_cast<T>(s.alpha),
             .beta = static_cast<T>(s.beta)});
  });
}

template <class T>
BoundKernel addmm_grad(const KernelSite& site, Product<T> product) {
  const AddedProduct s(site);
  const int x_at = site.position("X"), y_at = site.position("Y");
  const int grad_at = site.position("Out@GRAD"), input_grad = site.out_position("Input@GRAD");
  const int x_grad = site.out_position("X@GRAD"), y_grad = site.out_position("Y@GRAD");
  return BoundKernel([=](const KernelArgs& k) {
    const T* grad = k.in<T>(grad_at);
    const auto alpha = static_cast<T>(s.alpha);
    if (k.has_out(input_grad)) {
      T* to = k.out<T>(input_grad);
      std::fill_n(to, s.input_rows * s.input_columns, T{0});
      for (int64_t at = 0; at < s.rows * s.columns; ++at) {
        to[s.in_input(at / s.columns, at % s.columns)] += grad[at] * static_cast<T>(s.beta);
      }
    }
    if (k.has_out(x_grad)) {
      product({.m = s.rows,
               .n = s.inner,
               .k = s.columns,
               .a = grad,
               .lda = s.columns,
               .b = k.in<T>(y_at),
               .ldb = s.columns,
               .trans_b = true,
               .c = k.out<T>(x_grad),
               .ldc = s.inner,
               .alpha = alpha});
    }
    if (k.has_out(y_grad)) {
      product({.m = s.inner,
               .n = s.columns,
               .k = s.rows,
               .a = k.in<T>(x_at),
               .lda = s.inner,
               .trans_a = true,
               .b = grad,
               .ldb = s.columns,
               .c = k.out<T>(y_grad),
               .ldc = s.columns,
               .alpha = alpha});
    }
  });
}

SampleRule addmm_sample(const Shape& input) {
  return [input](Draw& d) {
    return OpSample{.inputs = {{"Input", {d.uniform(input)}},
                               {"X", {d.uniform({3, 2})}},
                               {"Y", {d.uniform({2, 4})}}},
                    .attrs = {{"Alpha", 0.5f}, {"Beta", 2.0f}}};
  };
}

}  // namespace

void register_addmm(Registry& ops) {
  const auto run = []<class T>(const KernelSite& site, Product<T> product) {
    return addmm(site, product);
  };
  const auto run_grad = []<class T>(const KernelSite& site, Product<T> product) {
    return addmm_grad(site, product);
  };
  ops.op("addmm")
      .doc("A matrix added to the product of two")
      .in("Input", "[rows, columns]; extents of 1 are repeated")
      .in("X", "[rows, inner]")
      .in("Y", "[inner, columns]")
      .out("Out", "Alpha * X * Y + Beta * Input")
      .attr("Alpha", 1.0f, "what the product is multiplied by")
      .attr("Beta", 1.0f, "what Input is multiplied by")
      .shape(addmm_shape)
      .kernel(with_blas(run), "blas")
      .kernel(with_reference(run))
      .grad({"Input", "X", "Y"})
      .grad_kernel(with_blas(run_grad), "blas")
      .grad_kernel(with_reference(run_grad))
      .sample(addmm_sample({3, 4}))
      .sample(addmm_sample({1, 4}))
      .sample(addmm_sample({3, 1}));
}

}  // namespace trireme
