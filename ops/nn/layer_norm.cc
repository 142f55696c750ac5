// layer_norm: the trailing dimensions of each row are normalised together.
#include "cpu/independent.h"
#include "ir/schema.h"
#include "ops/nn/moments.h"
#include "ops/nn/norm_definition.h"

namespace trireme {
namespace {

// X as a matrix: dimensions from begin_norm_axis on are columns.
struct Layer {
  int64_t rows, columns;
  Layer(const OpView& op, const Shape& x) {
    const int axis = op.attr<int>("begin_norm_axis");
    rows = x.product(0, axis).value();
    columns = x.product(axis, x.rank()).value();
  }
  Strip row(int64_t r) const { return {.first = r * columns, .inner = columns}; }
};

void layer_norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int axis = op.attr<int>("begin_norm_axis");
  if (axis < 1 || axis >= x.shape.rank()) {
    throw op.error(cat("begin_norm_axis is ", axis, " but X has ", x.shape.rank(), " dimensions"))
        .fix(cat("choose from 1 to ", x.shape.rank() - 1));
  }
  const Dim rows = x.shape.product(0, axis), columns = x.shape.product(axis, x.shape.rank());
  check_parameter(op, "Scale", columns, "elements to normalise");
  check_parameter(op, "Bias", columns, "elements to normalise");
  op.set_out_like("Y", x);
  op.set_out("Mean", x.dtype, Shape{rows});
  op.set_out("Variance", x.dtype, Shape{rows});
}

// Calls f with the parameter as an array: its numbers, or the one that it has where it is absent.
template <class T, class F>
void with_values(const Parameter<T>& parameter, const F& f) {
  if (parameter.values) {
    f([values = parameter.values](int64_t i) { return values[i]; });
  } else {
    f([absent = parameter.absent](int64_t) { return absent; });
  }
}

template <class T>
BoundKernel layer_norm(const KernelSite& site) {
  const Layer layer(site, site.in("X").shape);
  const double epsilon = site.attr<float>("epsilon");
  const int scale_at = site.position("Scale"), bias_at = site.position("Bias");
  const int y_at = site.out_position("Y"), mean_at = site.out_position("Mean"),
            variance_at = site.out_position("Variance");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const Parameter<T> scales(k, scale_at, T(1)), biases(k, bias_at, T(0));
        const auto [begin, end] = k.range(layer.rows);
        for (int64_t r = begin; r < end; ++r) {
          const Moments found = moments(layer.row(r), k.in<T>(0));
          if (k.has_out(mean_at)) k.out<T>(mean_at)[r] = static_cast<T>(found.mean);
          if (k.has_out(variance_at)) k.out<T>(variance_at)[r] = static_cast<T>(found.variance);
          const auto mean = static_cast<T>(found.mean);
          const auto inverse = static_cast<T>(inverse_of(found.variance, epsilon));
          const T* x = k.in<T>(0) + r * layer.columns;
          T* y = k.out<T>(y_at) + r * layer.columns;
          with_values(scales, [&](auto scale) {
            with_values(biases, [&](auto bias) {
              vectorised([=, n = layer.columns] {
                TRIREME_INDEPENDENT
                for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale(i) + bias(i);
              });
            });
          });
        }
      },
      norm_parts(layer.rows, layer.rows * layer.columns));
}

// X@GRAD of one row.
template <class T>
void row_grad(const T* x, const T* grad, const Parameter<T>& scales, double mean, double inverse,
              int64_t n, T* x_grad) {
  const auto row_mean = static_cast<T>(mean), factor = static_cast<T>(inverse);
  with_values(scales, [&](auto scale) {
    const Strip row{.inner = n};
    const auto arriving = [=](int64_t i) { return static_cast<double>(grad[i] * scale(i)); };
    const auto weighted = [=](int64_t i) {
      return arriving(i) * static_cast<double>((x[i] - row_mean) * factor);
    };
    const auto count = static_cast<double>(n);
    const auto common = static_cast<T>(strip_sum<T>(row, arriving) / count);
    const auto slope = static_cast<T>(strip_sum<T>(row, weighted) / count);
    vectorised([=] {
      TRIREME_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        x_grad[i] = factor * (grad[i] * scale(i) - common - (x[i] - row_mean) * factor * slope);
      }
    });
  });
}

// Scale@GRAD and Bias@GRAD of columns [begin, end): row after row is added to their sums.
template <class T, class Inverse>
void column_grads(const Layer& layer, const T* x, const T* grad, const T* mean,
                  const Inverse& inverse, int64_t begin, int64_t end, T* scale_grad, T* bias_grad) {
  constexpr int64_t kBlock = 64;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t n = std::min(kBlock, end - first);
    double sums[kBlock] = {}, weighted[kBlock] = {};
    for (int64_t r = 0; r < layer.rows; ++r) {
      const int64_t at = r * layer.columns + first;
      vectorised(
          [&sums, &weighted, n, x = x + at, grad = grad + at, mean = mean[r], factor = inverse(r)] {
            for (int64_t i = 0; i < n; ++i) {
              const auto arriving = static_cast<double>(grad[i]);
              sums[i] += arriving;
              weighted[i] += arriving * static_cast<double>(x[i] - mean) * factor;
            }
          });
    }
    for (int64_t i = 0; i < n; ++i) {
      if (scale_grad) scale_grad[first + i] = static_cast<T>(weighted[i]);
      if (bias_grad) bias_grad[first + i] = static_cast<T>(sums[i]);
    }
  }
}

// X@GRAD is cut by rows, the parameters' gradients by columns.
template <class T>
BoundKernel layer_norm_grad(const KernelSite& site) {
  const Layer layer(site, site.in("X").shape);
  const double epsilon = site.attr<float>("epsilon");
  const int x_at = site.position("X"), mean_at = site.position("Mean"),
            variance_at = site.position("Variance"), scale_at = site.position("Scale"),
            grad_at = site.position("Y@GRAD");
  const int x_grad_at = site.out_position("X@GRAD"),
            scale_grad_at = site.out_position("Scale@GRAD"),
            bias_grad_at = site.out_position("Bias@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const T* x = k.in<T>(x_at);
        const T* grad = k.in<T>(grad_at);
        const T* mean = k.in<T>(mean_at);
        const Parameter<T> scale(k, scale_at, T(1));
        const auto inverse = [&](int64_t r) {
          return inverse_of(static_cast<double>(k.in<T>(variance_at)[r]), epsilon);
        };
        if (k.has_out(x_grad_at)) {
          const auto [begin, end] = k.range(layer.rows);
          for (int64_t r = begin; r < end; ++r) {
            const int64_t at = r * layer.columns;
            row_grad(x + at, grad + at, scale, static_cast<double>(mean[r]), inverse(r),
                     layer.columns, k.out<T>(x_grad_at) + at);
          }
        }
        if (!k.has_out(scale_grad_at) && !k.has_out(bias_grad_at)) return;
        const auto [begin, end] = k.range(layer.columns);
        column_grads(layer, x, grad, mean, inverse, begin, end,
                     k.has_out(scale_grad_at) ? k.out<T>(scale_grad_at) : nullptr,
                     k.has_out(bias_grad_at) ? k.out<T>(bias_grad_at) : nullptr);
      },
      norm_parts(std::min(layer.rows, layer.columns), layer.rows * layer.columns));
}

void layer_norm_gradients(Body& b) {
  const Expr x = b.in("X");
  const int axis = b.attr<int>("begin_norm_axis");
  const Expr grad = flatten2d(b.in("Y@GRAD"), axis);
  const NormGradients made = norm_gradients({.x = flatten2d(x, axis),
                                             .grad = grad,
                                             .axes = {1},
                                             .scale = b.has("Scale") ? b.in("Scale") : Expr(),
                                             .epsilon = b.attr<float>("epsilon")});
  b.out("X@GRAD") = reshape_like(made.x, x);
  if (b.wants("Scale@GRAD")) b.out("Scale@GRAD") = reduce_sum(made.scaled, {0});
  if (b.wants("Bias@GRAD")) b.out("Bias@GRAD") = reduce_sum(grad, {0});
}

}  // namespace

void register_layer_norm(Registry& ops) {
  ops.op("layer_norm")
      .in("X", "two dimensions or more, floating point")
      .in_optional("Scale", "one number per element that is normalised together")
      .in_optional("Bias", "one number per element that is normalised together")
      .out("Y", "like X")
      .out_intermediate("Mean", "the mean of each row")
      .out_intermediate("Variance", "the variance of each row")
      .attr("epsilon", 1e-5f, "added to the variance")
      .between(0, 1e-3f)
      .attr("begin_norm_axis", 1, "dimensions from here on are normalised together")
      .shape(layer_norm_shape)
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return layer_norm<T>(site); }))
      .grad({"X", "Mean", "Variance", "Scale", "Bias"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return layer_norm_grad<T>(site); }))
      .grad_definition(layer_norm_gradients)
      .sample([](Draw& d) {
        return norm_sample(d, {3, 2, 4}, 8, {});
      })
      .sample([](Draw& d) {
        return norm_sample(d, {2, 3, 5}, 5, {{"begin_norm_axis", 2}});
      })
      .sample([](Draw& d) {
        return norm_sample(d, {4, 5}, 0, {});
      });
}

}  // namespace trireme
