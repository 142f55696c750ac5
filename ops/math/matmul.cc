// Matrix products: mul, matmul and matmul_v2. They differ in how operands become matrices.
#include <numeric>

#include "cpu/product_chains.h"
#include "ir/schema.h"

namespace trireme {
namespace {

using products::Products;
using products::Term;

// An operand as a stack of equal matrices. Rows and columns are those of op(matrix).
struct Stack {
  Shape batch;
  Dim rows, columns;
  bool transposed = false;

  Dim stored_columns() const { return transposed ? rows : columns; }
};

// out[b] = alpha * op(x[x_of(b)]) * op(y[y_of(b)]) for each b of `batch`.
struct Operands {
  Stack x, y;
  Shape batch;
  Shape out;
  double alpha = 1;
};

[[noreturn]] void refuse_inner(const OpView& op, Dim columns, Dim rows, const std::string& fix) {
  throw op.error(cat("X has ", columns, " columns but Y has ", rows, " rows; they must be equal"))
      .fix(fix);
}

void check_product_types(const OpView& op) {
  const DType x = op.in("X").dtype, y = op.in("Y").dtype;
  if (x == y) return;
  throw Error(ErrorKind::type_mismatch,
              cat("X is ", name_of(x), " but Y is ", name_of(y), "; they must be equal"))
      .fix("cast one of them");
}

Stack flat(const OpView& op, std::string_view slot, std::string_view attr) {
  const Shape& shape = op.in(slot).shape;
  const int split = op.attr<int>(attr);
  if (split < 1 || split >= shape.rank()) {
    throw op.error(cat(attr, " is ", split, " but ", slot, " has ", shape.rank(), " dimensions"))
        .fix(cat("choose ", attr, " from 1 to ", shape.rank() - 1, ", or give ", slot,
                 " more dimensions"));
  }
  return {
      .batch = {}, .rows = shape.product(0, split), .columns = shape.product(split, shape.rank())};
}

Operands mul_operands(const OpView& op) {
  check_product_types(op);
  Operands made{.x = flat(op, "X", "x_num_col_dims"), .y = flat(op, "Y", "y_num_col_dims")};
  const Dim columns = made.x.columns, rows = made.y.rows;
  if (!columns.may_equal(rows)) {
    refuse_inner(op, columns, rows,
                 cat("give Y the shape [", columns,
                     ", n], or pass the layer an "
                     "input with ",
                     rows, " columns"));
  }
  const Shape& x = op.in("X").shape;
  const Shape& y = op.in("Y").shape;
  for (int i = 0; i < op.attr<int>("x_num_col_dims"); ++i) made.out.push_back(x[i]);
  for (int i = op.attr<int>("y_num_col_dims"); i < y.rank(); ++i) made.out.push_back(y[i]);
  return made;
}

// A vector on the left is one row, on the right one column; `transposed` turns it over.
Stack stack(const OpView& op, std::string_view slot, bool left, bool transposed) {
  const Shape& shape = op.in(slot).shape;
  if (shape.rank() == 0) {
    throw op
        .error(cat(slot, " has no dimensions but must be a vector, a matrix or a stack of them"))
        .fix(cat("reshape ", slot));
  }
  Stack made{.transposed = transposed};
  if (shape.rank() == 1) {
    made.rows = left ? Dim(1) : shape[0];
    made.columns = left ? shape[0] : Dim(1);
  } else {
    for (int i = 0; i < shape.rank() - 2; ++i) made.batch.push_back(shape[i]);
    made.rows = shape[shape.rank() - 2];
    made.columns = shape[shape.rank() - 1];
  }
  if (transposed) std::swap(made.rows, made.columns);
  return made;
}

void check_inner(const OpView& op, const Operands& made) {
  if (made.x.columns.may_equal(made.y.rows)) return;
  refuse_inner(op, made.x.columns, made.y.rows,
               cat("transpose one of them, or give Y ", made.x.columns, " rows"));
}

// matmul: stacks have the same number of matrices, or one of the operands is a single matrix.
Operands matmul_operands(const OpView& op) {
  check_product_types(op);
  Operands made{.x = stack(op, "X", true, op.attr<bool>("transpose_X")),
                .y = stack(op, "Y", false, op.attr<bool>("transpose_Y")),
                .alpha = op.attr<float>("alpha")};
  check_inner(op, made);
  const Dim in_x = made.x.batch.numel(), in_y = made.y.batch.numel();
  if (made.x.batch.rank() > 0 && made.y.batch.rank() > 0 && !in_x.may_equal(in_y)) {
    throw op.error(cat("X holds ", in_x, " matrices but Y holds ", in_y, "; they must be equal"))
        .fix("give both the same leading dimensions, or make one of them a single matrix");
  }
  made.batch = made.x.batch.rank() > 0 ? made.x.batch : made.y.batch;
  made.out = made.batch;
  const bool x_vector = op.in("X").shape.rank() == 1, y_vector = op.in("Y").shape.rank() == 1;
  if (!x_vector || made.x.rows != Dim(1)) made.out.push_back(made.x.rows);
  if (!y_vector || made.y.columns != Dim(1)) made.out.push_back(made.y.columns);
  if (made.out.rank() == 0) made.out.push_back(1);
  return made;
}

// matmul_v2: numpy's rules. A vector is never turned over, leading dimensions broadcast.
Operands matmul_v2_operands(const OpView& op) {
  check_product_types(op);
  const bool x_vector = op.in("X").shape.rank() == 1, y_vector = op.in("Y").shape.rank() == 1;
  Operands made{.x = stack(op, "X", true, op.attr<bool>("trans_x") && !x_vector),
                .y = stack(op, "Y", false, op.attr<bool>("trans_y") && !y_vector)};
  check_inner(op, made);
  const Shape& x = made.x.batch;
  const Shape& y = made.y.batch;
  const int rank = std::max(x.rank(), y.rank());
  for (int axis = 0; axis < rank; ++axis) {
    const int x_axis = axis - (rank - x.rank()), y_axis = axis - (rank - y.rank());
    const Dim a = x_axis < 0 ? Dim(1) : x[x_axis], b = y_axis < 0 ? Dim(1) : y[y_axis];
    if (a != Dim(1) && b != Dim(1) && !a.may_equal(b)) {
      throw op.error(cat("leading dimension ", axis, " is ", a, " in X but ", b, " in Y"))
          .fix("make them equal, or one of them 1");
    }
    made.batch.push_back(a == Dim(1) ? b : b == Dim(1) ? a : Dim::join(a, b));
  }
  made.out = made.batch;
  if (!x_vector) made.out.push_back(made.x.rows);
  if (!y_vector) made.out.push_back(made.y.columns);
  if (made.out.rank() == 0) made.out.push_back(1);
  return made;
}

using OperandsOf = Operands (*)(const OpView&);

ShapeRule shape_of(OperandsOf operands) {
  return [operands](OpView& op) {
    const Shape out = operands(op).out;
    const Shape& x = op.in("X").shape;
    op.set_out("Out", op.in("X").dtype, out);
    // Rows that stay rows keep their sequences.
    if (x.rank() > 0 && x[0].may_equal(out[0])) op.share_lod("X", "Out");
  };
}

// Which matrix of a stack goes into each product, for a stack broadcast to `batch`.
std::vector<int64_t> matrix_of_product(const Shape& stack, const Shape& batch) {
  const int64_t products = batch.count();
  std::vector<int64_t> which(static_cast<size_t>(products));
  if (stack.count() == products) {
    std::iota(which.begin(), which.end(), int64_t{0});
    return which;
  }
  for (int64_t b = 0; b < products; ++b) {
    int64_t rest = b, matrix = 0, stride = 1;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      const int64_t position = rest % batch.at(axis);
      rest /= batch.at(axis);
      const int own = axis - (batch.rank() - stack.rank());
      if (own < 0 || stack.at(own) == 1) continue;
      matrix += position * stride;
      stride *= stack.at(own);
    }
    which[static_cast<size_t>(b)] = matrix;
  }
  return which;
}

// The products of one site with all sizes known.
struct MatrixProducts {
  int64_t m = 0, n = 0, k = 0, products = 0;
  bool trans_x = false, trans_y = false;
  int64_t x_ld = 0, y_ld = 0;
  std::vector<int64_t> x_of, y_of;
  double alpha = 1;
};

MatrixProducts products_of(const Operands& from) {
  MatrixProducts work{.m = from.x.rows.value(),
                      .n = from.y.columns.value(),
                      .k = from.x.columns.value(),
                      .products = from.batch.count(),
                      .trans_x = from.x.transposed,
                      .trans_y = from.y.transposed,
                      .x_ld = from.x.stored_columns().value(),
                      .y_ld = from.y.stored_columns().value(),
                      .x_of = matrix_of_product(from.x.batch, from.batch),
                      .y_of = matrix_of_product(from.y.batch, from.batch),
                      .alpha = from.alpha};
  // A stack times one matrix is one product: the stack's rows lie one after another.
  if (from.y.batch.count() == 1 && from.x.batch.count() == work.products && !work.trans_x) {
    work.m *= work.products;
    work.products = 1;
    work.x_of = work.y_of = {0};
  }
  return work;
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
      .grad_kernel(with_reference(run_grad));
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

}  // namespace

void register_matmul(Registry& ops) {
  product_row(ops.op("mul")
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
}

}  // namespace trireme
