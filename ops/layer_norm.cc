// layer_norm: the trailing dimensions of each row are normalised together.
#include "ir/schema.h"
#include "ops/moments.h"

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

template <class T>
BoundKernel layer_norm(const KernelSite& site) {
  const Layer layer(site, site.in("X").shape);
  const double epsilon = site.attr<float>("epsilon");
  const int scale_at = site.position("Scale"), bias_at = site.position("Bias");
  const int y_at = site.out_position("Y"), mean_at = site.out_position("Mean"),
            variance_at = site.out_position("Variance");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const T* x = k.in<T>(0);
        const Parameter<T> scale(k, scale_at, T(1)), bias(k, bias_at, T(0));
        const auto [begin, end] = k.range(layer.rows);
        for (int64_t r = begin; r < end; ++r) {
          const Strip row = layer.row(r);
          const Moments found = moments(row, x);
          if (k.has_out(mean_at)) k.out<T>(mean_at)[r] = static_cast<T>(found.mean);
          if (k.has_out(variance_at)) k.out<T>(variance_at)[r] = static_cast<T>(found.variance);
          const auto mean = static_cast<T>(found.mean);
          const auto inverse = static_cast<T>(inverse_of(found.variance, epsilon));
          T* y = k.out<T>(y_at);
          row.each([&](int64_t i) {
            y[i] = (x[i] - mean) * inverse * scale[i - row.first] + bias[i - row.first];
          });
        }
      },
      norm_parts(layer.rows, layer.rows * layer.columns));
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
            const Strip row = layer.row(r);
            const auto factor = static_cast<T>(inverse(r));
            strip_grad<T>(
                row, grad, scale, inverse(r), [&](int64_t i) { return (x[i] - mean[r]) * factor; },
                [&](int64_t i) { return i - row.first; }, k.out<T>(x_grad_at));
          }
        }
        if (!k.has_out(scale_grad_at) && !k.has_out(bias_grad_at)) return;
        const auto [begin, end] = k.range(layer.columns);
        for (int64_t c = begin; c < end; ++c) {
          double sum = 0, weighted = 0;
          for (int64_t r = 0; r < layer.rows; ++r) {
            const int64_t i = r * layer.columns + c;
            sum += static_cast<double>(grad[i]);
            weighted +=
                static_cast<double>(grad[i]) * static_cast<double>(x[i] - mean[r]) * inverse(r);
          }
          if (k.has_out(scale_grad_at)) k.out<T>(scale_grad_at)[c] = static_cast<T>(weighted);
          if (k.has_out(bias_grad_at)) k.out<T>(bias_grad_at)[c] = static_cast<T>(sum);
        }
      },
      norm_parts(std::min(layer.rows, layer.columns), layer.rows * layer.columns));
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
