// Operands of matrix products as stacks of matrices.
#include "ops/math/matrix_products.h"

#include <numeric>

namespace trireme {
namespace {

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

MatrixStack flat(const OpView& op, std::string_view slot, std::string_view attr) {
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

// A vector on the left is one row, on the right one column; `transposed` turns it over.
MatrixStack stack(const OpView& op, std::string_view slot, bool left, bool transposed) {
  const Shape& shape = op.in(slot).shape;
  if (shape.rank() == 0) {
    throw op
        .error(cat(slot, " has no dimensions but must be a vector, a matrix or a stack of them"))
        .fix(cat("reshape ", slot));
  }
  MatrixStack made{.transposed = transposed};
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

void check_inner(const OpView& op, const ProductOperands& made) {
  if (made.x.columns.may_equal(made.y.rows)) return;
  refuse_inner(op, made.x.columns, made.y.rows,
               cat("transpose one of them, or give Y ", made.x.columns, " rows"));
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

}  // namespace

ProductOperands mul_operands(const OpView& op) {
  check_product_types(op);
  ProductOperands made{.x = flat(op, "X", "x_num_col_dims"), .y = flat(op, "Y", "y_num_col_dims")};
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

// matmul: stacks have the same number of matrices, or one of the operands is a single matrix.
ProductOperands matmul_operands(const OpView& op) {
  check_product_types(op);
  ProductOperands made{.x = stack(op, "X", true, op.attr<bool>("transpose_X")),
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
ProductOperands matmul_v2_operands(const OpView& op) {
  check_product_types(op);
  const bool x_vector = op.in("X").shape.rank() == 1, y_vector = op.in("Y").shape.rank() == 1;
  ProductOperands made{.x = stack(op, "X", true, op.attr<bool>("trans_x") && !x_vector),
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

ProductOperands bmm_operands(const OpView& op) {
  check_product_types(op);
  const Shape &x = op.in("X").shape, &y = op.in("Y").shape;
  if (x.rank() != 3 || y.rank() != 3 || !x[0].may_equal(y[0])) {
    throw op.error(cat("X has shape ", x, " and Y ", y)).fix("give two stacks of as many matrices");
  }
  ProductOperands made{.x = stack(op, "X", true, false), .y = stack(op, "Y", false, false)};
  check_inner(op, made);
  made.batch = {Dim::join(x[0], y[0])};
  made.out = {made.batch[0], x[1], y[2]};
  return made;
}

ProductOperands fsp_operands(const OpView& op) {
  check_product_types(op);
  const Shape &x = op.in("X").shape, &y = op.in("Y").shape;
  if (x.rank() != 4 || y.rank() != 4 || !x[0].may_equal(y[0]) || !x[2].may_equal(y[2]) ||
      !x[3].may_equal(y[3])) {
    throw op.error(cat("X has shape ", x, " and Y ", y))
        .fix("give images of one batch, height and width");
  }
  const Dim pixels = Dim::join(x[2], y[2]) * Dim::join(x[3], y[3]);
  ProductOperands made{.x = {{x[0]}, x[1], pixels}, .y = {{y[0]}, pixels, y[1], true}};
  made.batch = {Dim::join(x[0], y[0])};
  made.out = {made.batch[0], x[1], y[1]};
  if (pixels.known()) made.alpha = 1.0 / static_cast<double>(pixels.value());
  return made;
}

MatrixProducts products_of(const ProductOperands& from) {
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

}  // namespace trireme
