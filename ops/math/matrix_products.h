// What a matrix product multiplies: how operands of ops become matrices.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// An operand as a stack of equal matrices. Rows and columns are those of op(matrix).
struct MatrixStack {
  Shape batch;
  Dim rows, columns;
  bool transposed = false;

  Dim stored_columns() const { return transposed ? rows : columns; }
};

// out[b] = alpha * op(x[x_of(b)]) * op(y[y_of(b)]) for each b of `batch`.
struct ProductOperands {
  MatrixStack x, y;
  Shape batch;
  Shape out;
  double alpha = 1;
};

// By op; an Error says what does not fit. Sizes may be unknown.
ProductOperands mul_operands(const OpView& op);
ProductOperands matmul_operands(const OpView& op);
ProductOperands matmul_v2_operands(const OpView& op);
ProductOperands bmm_operands(const OpView& op);
ProductOperands fsp_operands(const OpView& op);

// The products of one site with all sizes known.
struct MatrixProducts {
  int64_t m = 0, n = 0, k = 0, products = 0;
  bool trans_x = false, trans_y = false;
  int64_t x_ld = 0, y_ld = 0;
  std::vector<int64_t> x_of, y_of;
  double alpha = 1;
};

MatrixProducts products_of(const ProductOperands& from);

}  // namespace trireme
