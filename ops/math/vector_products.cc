// Products of vectors and matrices that are written in primitives: dot, kron, cross, dist; and
// allclose.
#include <cmath>

#include "ops/axis_rows.h"
#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void require_equal_extents(const OpView& op, const char* a, const char* b) {
  const Shape &first = op.in(a).shape, &second = op.in(b).shape;
  if (first.may_equal(second)) return;
  throw op.error(cat(a, " has shape ", first, " but ", b, " ", second))
      .fix(cat("give ", b, " the shape of ", a));
}

// ---- dot

void dot_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  require_equal_extents(op, "X", "Y");
  if (x.shape.rank() != 1 && x.shape.rank() != 2) {
    throw op.error(cat("X has shape ", x.shape)).fix("give a vector, or a matrix of rows");
  }
  Shape out = x.shape;
  out[out.rank() - 1] = 1;
  op.set_out("Out", x.dtype, out);
}

// ---- kron

void kron_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &y = op.in("Y");
  require_numbers(op, "X");
  const int rank = std::max(x.shape.rank(), y.shape.rank());
  const auto extent = [rank](const Shape& shape, int d) {
    const int own = d - (rank - shape.rank());
    return own < 0 ? Dim(1) : shape[own];
  };
  Shape out;
  int unknown = 0;
  for (int d = 0; d < rank; ++d) {
    out.push_back(extent(x.shape, d) * extent(y.shape, d));
    unknown += !out[d].known();
  }
  if (unknown > 1 || 2 * rank > kMaxRank) {
    throw op.error(cat("X has shape ", x.shape, " and Y ", y.shape))
        .fix(cat("declare all extents but one, of ", kMaxRank / 2, " dimensions at most"));
  }
  op.set_out("Out", x.dtype, out);
}

// X with an axis of 1 behind each of its own, Y with one before each of its own: their product
// holds every pair.
void kron_body(Body& b) {
  Expr x = b.in("X"), y = b.in("Y");
  const int rank = std::max(x.rank(), y.rank());
  const auto widened = [rank](Expr one) { return align(one, rank, rank - one.rank()); };
  std::vector<int> behind, before;
  for (int d = 0; d < rank; ++d) behind.push_back(2 * d + 1), before.push_back(2 * d);
  const Expr pairs = unsqueeze(widened(x), behind) * unsqueeze(widened(y), before);
  std::vector<int64_t> shape;
  for (int d = 0; d < rank; ++d) {
    const Dim extent = pairs.shape()[2 * d] * pairs.shape()[2 * d + 1];
    shape.push_back(extent.known() ? extent.value() : -1);
  }
  b.out("Out") = reshape(pairs, shape);
}

// ---- cross

constexpr int kAnyAxis = 9;  // the first of extent 3

int cross_axis(const OpView& op) {
  const Shape& x = op.in("X").shape;
  const int dim = op.attr<int32_t>("dim");
  if (dim != kAnyAxis) return normal_axis(op, dim, x.rank(), "dim");
  for (int d = 0; d < x.rank(); ++d) {
    if (x[d].known() && x.at(d) == 3) return d;
  }
  throw op.error(cat("X has shape ", x)).fix("give X a dimension of extent 3");
}

void cross_shape(OpView& op) {
  require_equal_extents(op, "X", "Y");
  const int axis = cross_axis(op);
  if (!op.in("X").shape[axis].may_equal(3)) {
    throw op.error(cat("X has shape ", op.in("X").shape, " but dim is ", axis))
        .fix("name a dimension of extent 3");
  }
  op.set_out("Out", op.in("X").dtype, op.in("X").shape);
}

template <class T>
void cross_rows(const AxisRows& rows, const T* a, const T* b, T* out) {
  const int64_t step = rows.inner;
  for (int64_t row = 0; row < rows.rows(); ++row) {
    const int64_t at = rows.begin(row);
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t j = at + (i + 1) % 3 * step, k = at + (i + 2) % 3 * step;
      out[at + i * step] = a[j] * b[k] - a[k] * b[j];
    }
  }
}

template <class T>
BoundKernel cross_kernel(const KernelSite& site) {
  const AxisRows rows(site.in("X").shape, cross_axis(site));
  return [=](const KernelArgs& k) { cross_rows(rows, k.in<T>(0), k.in<T>(1), k.out<T>(0)); };
}

// dX = Y x dOut, dY = dOut x X.
template <class T>
BoundKernel cross_grad_kernel(const KernelSite& site) {
  const AxisRows rows(site.in("X").shape, cross_axis(site));
  const int x_at = site.position("X"), y_at = site.position("Y");
  const int grad_at = site.position("Out@GRAD");
  const int x_grad = site.out_position("X@GRAD"), y_grad = site.out_position("Y@GRAD");
  return [=](const KernelArgs& k) {
    const T* grad = k.in<T>(grad_at);
    if (k.has_out(x_grad)) cross_rows(rows, k.in<T>(y_at), grad, k.out<T>(x_grad));
    if (k.has_out(y_grad)) cross_rows(rows, grad, k.in<T>(x_at), k.out<T>(y_grad));
  };
}

// ---- dist: the p norm of a difference

void dist_body(Body& b) {
  const Expr difference = b.in("X") - b.in("Y");
  const double p = b.attr<float>("p");
  const Expr size = abs(difference);
  Expr norm;
  if (p == 0) {
    norm = reduce_sum(cast(greater(size, 0.0), difference.dtype()));
  } else if (std::isinf(p)) {
    norm = p > 0 ? reduce_max(size) : reduce_min(size);
  } else if (p == 1) {
    norm = reduce_sum(size);
  } else if (p == 2) {
    norm = sqrt(reduce_sum(square(difference)));
  } else {
    norm = pow(reduce_sum(pow(size, p)), 1 / p);
  }
  b.out("Out") = reshape(norm, {1});
}

SampleRule vectors_sample(const Shape& x, const Shape& y, Attrs attrs = {}) {
  return [=](Draw& d) {
    return OpSample{.inputs = {{"X", {d.distinct(x)}}, {"Y", {d.uniform(y, 3, 4)}}},
                    .attrs = attrs};
  };
}

void register_dist(Registry& ops) {
  OpSchema& row = ops.op("dist")
                      .in("X", "floating point")
                      .in("Y", "X's type; the shapes broadcast")
                      .out("Out", "[1]: the p norm of X - Y")
                      .attr("p", 2.0f, "0: how many differ; infinite: the largest or the smallest")
                      .shape([](OpView& op) {
                        require_floating(op, "X");
                        broadcast_shapes(op, op.in("X").shape, op.in("Y").shape, -1);
                        op.set_out("Out", op.in("X").dtype, {1});
                      })
                      .body(dist_body)
                      .grad({"X", "Y", "Out"});
  for (const float p : {2.0f, 1.0f, 3.0f, INFINITY, -INFINITY}) {
    row.sample(vectors_sample({2, 3}, {2, 3}, {{"p", p}}));
  }
  row.sample(vectors_sample({2, 3}, {3}));
}

void allclose_body(Body& b) {
  const Expr a = b.in("Input"), other = b.in("Other");
  const double relative = b.attr<float>("rtol"), absolute = b.attr<float>("atol");
  Expr close = less_equal(abs(a - other), abs(other) * relative + absolute);
  if (b.attr<bool>("equal_nan")) {
    close = logical_or(close, logical_and(not_equal(a, a), not_equal(other, other)));
  }
  b.out("Out") = reshape(reduce_all(close), {1});
}

}  // namespace

void register_vector_products(Registry& ops) {
  ops.op("dot")
      .in("X", "[n] or [rows, n]")
      .in("Y", "X's shape")
      .out("Out", "the sum of X * Y over the last dimension, which becomes 1")
      .shape(dot_shape)
      .body([](Body& b) { b.out("Out") = reduce_sum(b.in("X") * b.in("Y"), {-1}, true); })
      .grad({"X", "Y"})
      .sample(vectors_sample({2, 3}, {2, 3}))
      .sample(vectors_sample({4}, {4}));
  ops.op("kron")
      .in("X", "any shape")
      .in("Y", "X's type")
      .out("Out", "Kronecker's product: X with every element times Y in its place")
      .shape(kron_shape)
      .body(kron_body)
      .grad({"X", "Y"})
      .sample(vectors_sample({2, 3}, {3, 2}))
      .sample(vectors_sample({2}, {3}));
  ops.op("cross")
      .in("X", "has a dimension of extent 3")
      .in("Y", "X's shape")
      .out("Out", "the cross products")
      .attr("dim", kAnyAxis, "the dimension of extent 3; 9: the first that has it")
      .shape(cross_shape)
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "X", []<class T>(const KernelSite& site) { return cross_kernel<T>(site); }))
      .grad({"X", "Y"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& site) { return cross_grad_kernel<T>(site); }))
      .grad_vjp(bilinear_gradient("X", "Y"))
      .sample(vectors_sample({2, 3, 2}, {2, 3, 2}))
      .sample(vectors_sample({3, 3}, {3, 3}, {{"dim", int32_t{1}}}));
  register_dist(ops);
  ops.op("allclose")
      .doc("Whether all elements of two tensors are nearly equal")
      .in("Input", "floating point")
      .in("Other", "Input's shape and type")
      .out("Out", "bool [1]: every |Input - Other| <= atol + rtol * |Other|")
      .attr("rtol", 1e-5f, "relative tolerance")
      .attr("atol", 1e-8f, "absolute tolerance")
      .attr("equal_nan", false, "whether two NaNs are equal")
      .shape([](OpView& op) {
        require_floating(op, "Input");
        require_equal_extents(op, "Input", "Other");
        op.set_out("Out", DType::boolean, {1});
      })
      .body(allclose_body);
}

}  // namespace trireme
