// bilinear_tensor_product: Out[n, k] = X[n] Weight[k] Y[n]^T + Bias[k].
#include <algorithm>

#include "cpu/gemm_kernel.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void bilinear_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &y = op.in("Y");
  const Shape& weight = op.in("Weight").shape;
  require_floating(op, "X");
  if (x.shape.rank() != 2 || y.shape.rank() != 2 || !x.shape[0].may_equal(y.shape[0])) {
    throw op.error(cat("X has shape ", x.shape, " and Y ", y.shape))
        .fix("give X [rows, m] and Y [rows, n]");
  }
  if (weight.rank() != 3 || !weight[1].may_equal(x.shape[1]) || !weight[2].may_equal(y.shape[1])) {
    throw op
        .error(cat("Weight has shape ", weight, " but X has ", x.shape[1], " columns and Y ",
                   y.shape[1]))
        .fix(cat("give Weight the shape [size, ", x.shape[1], ", ", y.shape[1], "]"));
  }
  if (op.has("Bias") && !op.in("Bias").shape.numel().may_equal(weight[0])) {
    throw op.error(cat("Bias has shape ", op.in("Bias").shape, " but Weight ", weight))
        .fix(cat("give Bias the shape [1, ", weight[0], "]"));
  }
  op.set_out("Out", x.dtype, {x.shape[0], weight[0]});
  carry_lod(op, "Out", {"X"});
}

struct BilinearSizes {
  int64_t rows, m, n, size;
  explicit BilinearSizes(const KernelSite& site)
      : rows(site.in("X").shape.at(0)),
        m(site.in("X").shape.at(1)),
        n(site.in("Y").shape.at(1)),
        size(site.in("Weight").shape.at(0)) {}
};

// X Weight[k], [rows, n].
template <class T>
void through_weight(const Product<T>& product, const BilinearSizes& s, const T* x, const T* weight,
                    T* to) {
  product({.m = s.rows,
           .n = s.n,
           .k = s.m,
           .a = x,
           .lda = s.m,
           .b = weight,
           .ldb = s.n,
           .c = to,
           .ldc = s.n});
}

template <class T>
BoundKernel bilinear(const KernelSite& site, Product<T> product) {
  const BilinearSizes s(site);
  const int x_at = site.position("X"), y_at = site.position("Y");
  const int weight_at = site.position("Weight"), bias_at = site.position("Bias");
  BoundKernel kernel([=](const KernelArgs& k) {
    const T* y = k.in<T>(y_at);
    const T* bias = k.has_in(bias_at) ? k.in<T>(bias_at) : nullptr;
    T* left = reinterpret_cast<T*>(k.scratch);
    for (int64_t map = 0; map < s.size; ++map) {
      through_weight(product, s, k.in<T>(x_at), k.in<T>(weight_at) + map * s.m * s.n, left);
      for (int64_t row = 0; row < s.rows; ++row) {
        T sum = bias ? bias[map] : T{0};
        for (int64_t j = 0; j < s.n; ++j) sum += left[row * s.n + j] * y[row * s.n + j];
        k.out<T>(0)[row * s.size + map] = sum;
      }
    }
  });
  kernel.scratch = static_cast<size_t>(s.rows * s.n) * sizeof(T);
  return kernel;
}

// With g = dOut[:, k] as a factor of every row: dX += (g Y) Weight[k]^T, dY += g (X Weight[k]),
// dWeight[k] = X^T (g Y), dBias[k] = sum of g.
template <class T>
BoundKernel bilinear_grad(const KernelSite& site, Product<T> product) {
  const BilinearSizes s(site);
  const int x_at = site.position("X"), y_at = site.position("Y");
  const int weight_at = site.position("Weight"), grad_at = site.position("Out@GRAD");
  const int dx_at = site.out_position("X@GRAD"), dy_at = site.out_position("Y@GRAD");
  const int dweight_at = site.out_position("Weight@GRAD");
  const int dbias_at = site.out_position("Bias@GRAD");
  BoundKernel kernel([=](const KernelArgs& k) {
    const T *x = k.in<T>(x_at), *y = k.in<T>(y_at), *grad = k.in<T>(grad_at);
    T* dy = k.has_out(dy_at) ? k.out<T>(dy_at) : nullptr;
    if (dy) std::fill_n(dy, s.rows * s.n, T{0});
    T* rows = reinterpret_cast<T*>(k.scratch);
    for (int64_t map = 0; map < s.size; ++map) {
      const T* weight = k.in<T>(weight_at) + map * s.m * s.n;
      const auto g = [&](int64_t row) { return grad[row * s.size + map]; };
      if (k.has_out(dbias_at)) {
        T sum = 0;
        for (int64_t row = 0; row < s.rows; ++row) sum += g(row);
        k.out<T>(dbias_at)[map] = sum;
      }
      if (dy) {
        through_weight(product, s, x, weight, rows);
        for (int64_t i = 0; i < s.rows * s.n; ++i) dy[i] += g(i / s.n) * rows[i];
      }
      for (int64_t i = 0; i < s.rows * s.n; ++i) rows[i] = g(i / s.n) * y[i];
      if (k.has_out(dx_at)) {
        product({.m = s.rows,
                 .n = s.m,
                 .k = s.n,
                 .a = rows,
                 .lda = s.n,
                 .b = weight,
                 .ldb = s.n,
                 .trans_b = true,
                 .c = k.out<T>(dx_at),
                 .ldc = s.m,
                 .beta = map == 0 ? T{0} : T{1}});
      }
      if (k.has_out(dweight_at)) {
        product({.m = s.m,
                 .n = s.n,
                 .k = s.rows,
                 .a = x,
                 .lda = s.m,
                 .trans_a = true,
                 .b = rows,
                 .ldb = s.n,
                 .c = k.out<T>(dweight_at) + map * s.m * s.n,
                 .ldc = s.n});
      }
    }
  });
  kernel.scratch = static_cast<size_t>(s.rows * s.n) * sizeof(T);
  return kernel;
}

// The gradient op does not read Bias.
void bilinear_grad_shape(OpView& op) {
  for (const std::string slot : {"X", "Y", "Weight"}) op.set_out_like(slot + "@GRAD", op.in(slot));
  op.set_out("Bias@GRAD", op.in("Weight").dtype, {1, op.in("Weight").shape[0]});
}

}  // namespace

void register_bilinear_tensor_product(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return bilinear<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return bilinear_grad<T>(site, product);
  };
  OpSchema& row = ops.op("bilinear_tensor_product")
                      .doc("Out[n, k] = X[n] Weight[k] Y[n]^T + Bias[k]")
                      .in("X", "[rows, m]")
                      .in("Y", "[rows, n]")
                      .in("Weight", "[size, m, n]")
                      .in_optional("Bias", "[1, size]")
                      .out("Out", "[rows, size]")
                      .shape(bilinear_shape)
                      .kernel(with_onednn(forward), "onednn")
                      .kernel(with_blas(forward), "blas")
                      .kernel(with_reference(forward))
                      .grad({"X", "Y", "Weight"})
                      .grad_shape(bilinear_grad_shape)
                      .grad_kernel(with_onednn(backward), "onednn")
                      .grad_kernel(with_blas(backward), "blas")
                      .grad_kernel(with_reference(backward));
  for (const bool biased : {true, false}) {
    row.sample([biased](Draw& draw) {
      const int64_t rows = draw.size(1, 3), m = draw.size(1, 3), n = draw.size(1, 4);
      const int64_t size = draw.size(1, 3);
      OpSample sample{.inputs = {{"X", {draw.uniform({rows, m})}},
                                 {"Y", {draw.uniform({rows, n})}},
                                 {"Weight", {draw.uniform({size, m, n})}}}};
      if (biased) sample.inputs["Bias"] = {draw.uniform({1, size})};
      return sample;
    });
  }
}

}  // namespace trireme
