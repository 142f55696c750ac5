// softmax over one axis.
#include <cmath>

#include "ir/schema.h"
#include "ops/axis_rows.h"
#include "ops/row_math.h"

namespace trireme {
namespace {

// Logits this far below the largest count as this far: no probability is ever 0, so that a loss may
// take its logarithm and divide by it.
constexpr double kLowest = -64;

void softmax_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  normal_axis(op, op.attr<int>("axis"), x.shape.rank());
  op.set_out_like("Out", x);
}

AxisRows rows_of(const KernelSite& site, const Shape& shape) {
  return AxisRows(shape, normal_axis(site, site.attr<int>("axis"), shape.rank()));
}

template <class T>
void softmax_row(const T* x, T* out, int64_t n) {
  const T top = row_max(x, n);
  for (int64_t j = 0; j < n; ++j) {
    const T below = x[j] - top;  // not std::max: it would turn a NaN into a number
    out[j] = exponential(below < T(kLowest) ? T(kLowest) : below);
  }
  const T sum = row_sum<T>(n, [out](int64_t j) { return out[j]; });
  for (int64_t j = 0; j < n; ++j) out[j] /= sum;
}

template <class T>
BoundKernel softmax(const KernelSite& site) {
  const AxisRows rows = rows_of(site, site.in("X").shape);
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows.rows());
        for (int64_t row = begin; row < end; ++row) {
          const T* x = k.in<T>(0) + rows.begin(row);
          T* out = k.out<T>(0) + rows.begin(row);
          if (rows.inner == 1) {
            vectorised([&] { softmax_row(x, out, rows.extent); });
            continue;
          }
          T top = x[0];
          for (int64_t j = 1; j < rows.extent; ++j) top = std::max(top, x[j * rows.inner]);
          T sum = 0;
          for (int64_t j = 0; j < rows.extent; ++j) {
            // Not std::max: it would turn a NaN into a number.
            const T below = x[j * rows.inner] - top;
            const T kept = below < T(kLowest) ? T(kLowest) : below;
            sum += out[j * rows.inner] = exponential(kept);
          }
          for (int64_t j = 0; j < rows.extent; ++j) out[j * rows.inner] /= sum;
        }
      },
      rows.parts());
}

// dX = Out * (dOut - sum(dOut * Out)): reads Out, never X, so X may be overwritten.
template <class T>
BoundKernel softmax_grad(const KernelSite& site) {
  const AxisRows rows = rows_of(site, site.in("Out").shape);
  const int out_at = site.position("Out"), grad_at = site.position("Out@GRAD");
  const int x_grad_at = site.out_position("X@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(rows.rows());
        for (int64_t row = begin; row < end; ++row) {
          const T* out = k.in<T>(out_at) + rows.begin(row);
          const T* grad = k.in<T>(grad_at) + rows.begin(row);
          T* x_grad = k.out<T>(x_grad_at) + rows.begin(row);
          if (rows.inner == 1) {
            vectorised([&] {
              const T sum = row_sum<T>(rows.extent, [=](int64_t j) { return grad[j] * out[j]; });
              for (int64_t j = 0; j < rows.extent; ++j) x_grad[j] = out[j] * (grad[j] - sum);
            });
            continue;
          }
          T sum = 0;
          for (int64_t j = 0; j < rows.extent; ++j) {
            sum += grad[j * rows.inner] * out[j * rows.inner];
          }
          for (int64_t j = 0; j < rows.extent; ++j) {
            x_grad[j * rows.inner] = out[j * rows.inner] * (grad[j * rows.inner] - sum);
          }
        }
      },
      rows.parts());
}

}  // namespace

void register_softmax(Registry& ops) {
  ops.op("softmax")
      .in("X", "one dimension or more, floating point")
      .out("Out", "same shape and type as X")
      .attr("axis", -1, "the dimension that sums to one")
      .attr("data_format", "AnyLayout", "has no effect: `axis` says it all")
      .attr("is_test", false, "has no effect")
      .shape(softmax_shape)
      .inplace("X", "Out")
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return softmax<T>(site); }))
      .grad({"Out"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return softmax_grad<T>(site); }))
      .grad_definition([](Body& b) {
        const Expr out = b.in("Out"), grad = b.in("Out@GRAD");
        const int axis = normal_axis(b.op(), b.attr<int>("axis"), out.rank());
        b.out("X@GRAD") = out * (grad - reduce_sum(grad * out, {axis}, true));
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 4), -2, 2)}}}};
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform(d.shape(3, 4), -2, 2)}}},
                        .attrs = {{"axis", static_cast<int>(d.size(0, 2))}}};
      });
}

}  // namespace trireme
