// Matrix products: mul, matmul, matmul_v2, bmm and fsp. They differ in how operands become
// matrices.
#include "cpu/product_chains.h"
#include "ir/schema.h"
#include "ops/math/matrix_products.h"
#include "ops/rules.h"

namespace trireme {
namespace {

using products::Products;
using products::Term;

using OperandsOf = ProductOperands (*)(const OpView&);

ShapeRule shape_of(OperandsOf operands) {
  return [operands](OpView& op) {
    const Shape out = operands(op).out;
    const Shape& x = op.in("X").shape;
    op.set_out("Out", op.in("X").dtype, out);
    // Rows that stay rows keep their sequences.
    if (x.rank() > 0 && x[0].may_equal(out[0])) op.share_lod("X", "Out");
  };
}

template <class T>
BoundKernel product_forward(const KernelSite& site, OperandsOf operands, Product<T> product) {
  const MatrixProducts work = products_of(operands(site));
  std::vector<std::vector<Term<T>>> matrices;
  for (int64_t b = 0; b < work.products; ++b) {
    Term<T> term{.gemm = {.m = work.m,
                          .n = work.n,
                          .k = work.k,
                          .lda = work.x_ld,
                          .trans_a = work.trans_x,
                          .ldb = work.y_ld,
                          .trans_b = work.trans_y,
                          .ldc = work.n,
                          .alpha = static_cast<T>(work.alpha)},
                 .a = work.x_of[static_cast<size_t>(b)] * work.m * work.k,
                 .b = work.y_of[static_cast<size_t>(b)] * work.k * work.n,
                 .c = b * work.m * work.n};
    matrices.push_back({term});
  }
  Products<T> products(product);
  products.add(0, 1, 0, std::move(matrices));
  return std::move(products).kernel();
}

// One term of X@GRAD or Y@GRAD, in the layout the operand is stored in. The operands are those of
// grad_operands, in its order.
template <class T>
Gemm<T> x_grad_term(const MatrixProducts& work) {
  Gemm<T> g{.n = work.trans_x ? work.m : work.k,
            .k = work.n,
            .ldc = work.x_ld,
            .alpha = static_cast<T>(work.alpha)};
  g.m = work.trans_x ? work.k : work.m;
  if (work.trans_x) {  // op(Y) * Out@GRAD'
    g.lda = work.y_ld, g.trans_a = work.trans_y;
    g.ldb = work.n, g.trans_b = true;
  } else {  // Out@GRAD * op(Y)'
    g.lda = work.n;
    g.ldb = work.y_ld, g.trans_b = !work.trans_y;
  }
  return g;
}

template <class T>
Gemm<T> y_grad_term(const MatrixProducts& work) {
  Gemm<T> g{.n = work.trans_y ? work.k : work.n,
            .k = work.m,
            .ldc = work.y_ld,
            .alpha = static_cast<T>(work.alpha)};
  g.m = work.trans_y ? work.n : work.k;
  if (work.trans_y) {  // Out@GRAD' * op(X)
    g.lda = work.n, g.trans_a = true;
    g.ldb = work.x_ld, g.trans_b = work.trans_x;
  } else {  // op(X)' * Out@GRAD
    g.lda = work.x_ld, g.trans_a = !work.trans_x;
    g.ldb = work.n;
  }
  return g;
}

// The products of a gradient sorted by the matrix they add to, in the order of the products.
template <class T>
std::vector<std::vector<Term<T>>> terms_by_matrix(const MatrixProducts& work, const Gemm<T>& sizes,
                                                  const std::vector<int64_t>& matrix_of,
                                                  const std::vector<int64_t>& other_of,
                                                  int64_t matrix_size, int64_t other_size,
                                                  bool gradient_first) {
  int64_t count = 0;
  for (const int64_t matrix : matrix_of) count = std::max(count, matrix + 1);
  std::vector<std::vector<Term<T>>> matrices(static_cast<size_t>(count));
  for (size_t b = 0; b < matrix_of.size(); ++b) {
    std::vector<Term<T>>& terms = matrices[static_cast<size_t>(matrix_of[b])];
    Term<T> term{.gemm = sizes, .c = matrix_of[b] * matrix_size};
    const int64_t gradient = static_cast<int64_t>(b) * work.m * work.n;
    const int64_t other = other_of[b] * other_size;
    term.a = gradient_first ? gradient : other;
    term.b = gradient_first ? other : gradient;
    term.gemm.beta = terms.empty() ? T(0) : T(1);
    terms.push_back(std::move(term));
  }
  return matrices;
}

template <class T>
BoundKernel product_backward(const KernelSite& site, OperandsOf operands, Product<T> product) {
  const MatrixProducts work = products_of(operands(site));
  const int x_at = site.position("X"), y_at = site.position("Y");
  const int out_grad_at = site.position("Out@GRAD");
  const int64_t x_size = work.m * work.k, y_size = work.k * work.n;
  Products<T> products(product);
  const auto add = [&](std::string_view slot, int other_at, const Gemm<T>& sizes,
                       const std::vector<int64_t>& matrix_of, const std::vector<int64_t>& other_of,
                       int64_t matrix_size, int64_t other_size, bool gradient_first) {
    if (!site.wants(slot)) return;
    products.add(
        gradient_first ? out_grad_at : other_at, gradient_first ? other_at : out_grad_at,
        site.out_position(slot),
        terms_by_matrix(work, sizes, matrix_of, other_of, matrix_size, other_size, gradient_first));
  };
  // X@GRAD last: it is what the next op of the backward part reads, from the cache.
  add("Y@GRAD", x_at, y_grad_term<T>(work), work.y_of, work.x_of, y_size, x_size, work.trans_y);
  add("X@GRAD", y_at, x_grad_term<T>(work), work.x_of, work.y_of, x_size, y_size, !work.trans_x);
  return std::move(products).kernel();
}

OpSchema& product_row(OpSchema& row, OperandsOf operands) {
  const auto run = [operands]<class T>(const KernelSite& site, Product<T> product) {
    return product_forward<T>(site, operands, product);
  };
  const auto run_grad = [operands]<class T>(const KernelSite& site, Product<T> product) {
    return product_backward<T>(site, operands, product);
  };
  return row.shape(shape_of(operands))
      .kernel(with_onednn(run), "onednn")
      .kernel(with_blas(run), "blas")
      .kernel(with_reference(run))
      .grad({"X", "Y"})
      .grad_kernel(with_onednn(run_grad), "onednn")
      .grad_kernel(with_blas(run_grad), "blas")
      .grad_kernel(with_reference(run_grad))
      .grad_vjp(bilinear_gradient("X", "Y"));
}

OpSample product_sample(Draw& draw, const Shape& x, const Shape& y, Attrs attrs) {
  return {.inputs = {{"X", {draw.uniform(x)}}, {"Y", {draw.uniform(y)}}},
          .attrs = std::move(attrs)};
}

// Matrices op(x) [m, k] and op(y) [k, n], stored as the transpositions say, in stacks.
OpSample stacked_sample(Draw& draw, Shape x, Shape y, std::string x_attr, std::string y_attr) {
  const int64_t m = draw.size(1, 4), n = draw.size(1, 4), k = draw.size(1, 5);
  const bool trans_x = draw.coin(), trans_y = draw.coin();
  x.push_back(trans_x ? k : m), x.push_back(trans_x ? m : k);
  y.push_back(trans_y ? n : k), y.push_back(trans_y ? k : n);
  return product_sample(draw, x, y, {{std::move(x_attr), trans_x}, {std::move(y_attr), trans_y}});
}

void register_stacks(Registry& ops) {
  product_row(ops.op("bmm")
                  .in("X", "[stack, m, k]")
                  .in("Y", "[stack, k, n]")
                  .out("Out", "[stack, m, n]: X * Y for each matrix"),
              bmm_operands)
      .sample([](Draw& d) {
        return product_sample(d, {2, 3, 4}, {2, 4, 2}, {});
      });
  product_row(ops.op("fsp")
                  .doc("What maps of two layers have in common: the mean of their products")
                  .in("X", "[batch, channels, height, width]")
                  .in("Y", "[batch, other channels, height, width]")
                  .out("Out", "[batch, channels, other channels]"),
              fsp_operands)
      .sample([](Draw& d) {
        return product_sample(d, {2, 3, 2, 2}, {2, 2, 2, 2}, {});
      });
}

}  // namespace

void register_matmul(Registry& ops) {
  OpSchema& mul =
      product_row(
          ops.op("mul")
              .in("X", "flattened to a matrix: the first x_num_col_dims dimensions are rows")
              .in("Y", "flattened to a matrix: the first y_num_col_dims dimensions are rows")
              .out("Out", "rows of X by columns of Y, in their own dimensions")
              .attr("x_num_col_dims", 1, "how many dimensions of X are rows")
              .attr("y_num_col_dims", 1, "how many dimensions of Y are rows"),
          mul_operands)
          .traits({.product = true})
          .sample([](Draw& d) {
            const int64_t k = d.size(1, 5);
            return product_sample(d, {d.size(1, 4), k}, {k, d.size(1, 4)}, {});
          })
          .sample([](Draw& d) {
            const int64_t a = d.size(1, 3), b = d.size(1, 3);
            return product_sample(d, {d.size(1, 3), d.size(1, 3), a, b}, {b, a, d.size(1, 3)},
                                  {{"x_num_col_dims", 2}, {"y_num_col_dims", 2}});
          });
  bilinear_second_gradient(ops, mul);
  product_row(ops.op("matmul")
                  .in("X", "a vector, a matrix, or a stack of matrices")
                  .in("Y", "a vector, a matrix, or a stack of matrices")
                  .out("Out", "alpha * X * Y for each matrix of the stacks")
                  .attr("transpose_X", false, "use X turned over")
                  .attr("transpose_Y", false, "use Y turned over")
                  .attr("alpha", 1.0f, "the product is multiplied by this"),
              matmul_operands)
      .traits({.product = true, .turns_x = "transpose_X"})
      .sample([](Draw& d) { return stacked_sample(d, {}, {}, "transpose_X", "transpose_Y"); })
      .sample([](Draw& d) {
        OpSample made = stacked_sample(d, {2, 3}, {2, 3}, "transpose_X", "transpose_Y");
        made.attrs["alpha"] = 0.5f;
        return made;
      })
      .sample([](Draw& d) { return stacked_sample(d, {3}, {}, "transpose_X", "transpose_Y"); })
      .sample([](Draw& d) { return stacked_sample(d, {}, {3}, "transpose_X", "transpose_Y"); })
      .sample([](Draw& d) { return product_sample(d, {4}, {4}, {}); })
      .sample([](Draw& d) {
        return product_sample(d, {2}, {3}, {{"transpose_X", true}, {"transpose_Y", true}});
      })
      .sample([](Draw& d) {
        return product_sample(d, {2, 3, 4}, {4}, {});
      });
  product_row(ops.op("matmul_v2")
                  .in("X", "a vector, a matrix, or a stack of matrices")
                  .in("Y", "a vector, a matrix, or a stack of matrices")
                  .out("Out", "X * Y; leading dimensions broadcast")
                  .attr("trans_x", false, "use X turned over, unless it is a vector")
                  .attr("trans_y", false, "use Y turned over, unless it is a vector"),
              matmul_v2_operands)
      .traits({.product = true, .turns_x = "trans_x"})
      .sample([](Draw& d) { return stacked_sample(d, {}, {}, "trans_x", "trans_y"); })
      .sample([](Draw& d) {
        return stacked_sample(d, {2, 1}, {3}, "trans_x", "trans_y");
      })
      .sample([](Draw& d) {
        return stacked_sample(d, {3}, {2, 3}, "trans_x", "trans_y");
      })
      .sample([](Draw& d) {
        return product_sample(d, {4}, {3, 4, 2}, {});
      })
      .sample([](Draw& d) {
        return product_sample(d, {3, 2, 4}, {4}, {});
      });
  register_stacks(ops);
}

}  // namespace trireme
