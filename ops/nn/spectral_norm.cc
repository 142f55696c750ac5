// spectral_norm: a weight divided by its largest singular value, as power iteration finds it.
#include <algorithm>
#include <cmath>

#include "ops/rules.h"
#include "ops/scratch.h"

namespace trireme {
namespace {

// Weight as a matrix whose rows are the slices along `dim`.
struct WeightMatrix {
  int64_t height = 1, width = 1, inner = 1;

  WeightMatrix(const Shape& weight, int dim)
      : height(weight.at(dim)),
        width(height == 0 ? 0 : weight.count() / height),
        inner(weight.product(dim + 1, weight.rank()).value()) {}
  int64_t at(int64_t row, int64_t column) const {
    return (column / inner * height + row) * inner + column % inner;
  }
};

int dim_of(const OpView& op) {
  return normal_axis(op, op.attr<int32_t>("dim"), op.in("Weight").shape.rank(), "dim");
}

void spectral_norm_shape(OpView& op) {
  const Shape& weight = op.in("Weight").shape;
  require_floating(op, "Weight");
  if (weight.rank() < 2) {
    throw op.error(cat("Weight has shape ", weight, " but a matrix has two dimensions"))
        .fix("give a weight of two dimensions or more");
  }
  const Dim height = weight[dim_of(op)];
  const std::pair<const char*, Dim> wanted[] = {{"U", height}, {"V", weight.numel() / height}};
  for (const auto& [slot, size] : wanted) {
    if (op.in(slot).shape.numel().may_equal(size)) continue;
    throw op
        .error(cat(slot, " has shape ", op.in(slot).shape, " but Weight ", weight, " with dim ",
                   dim_of(op), " needs [", size, "]"))
        .fix(cat("give ", slot, " ", size, " numbers"));
  }
  op.set_out_like("Out", op.in("Weight"));
}

// The singular vectors as far as the iteration has come, and the value that belongs to them.
template <class T>
struct Singular {
  double *u, *v;
  double value = 0;
  size_t bytes;

  Singular(const WeightMatrix& m, std::byte* memory) {
    Scratch scratch(memory);
    u = scratch.take<double>(m.height);
    v = scratch.take<double>(m.width);
    bytes = scratch.bytes();
  }

  void find(const WeightMatrix& m, const T* weight, const T* from_u, const T* from_v,
            int iterations, double epsilon) {
    std::copy_n(from_u, m.height, u);
    std::copy_n(from_v, m.width, v);
    for (int i = 0; i < iterations; ++i) {
      for (int64_t c = 0; c < m.width; ++c) {
        v[c] = 0;
        for (int64_t r = 0; r < m.height; ++r) v[c] += weight[m.at(r, c)] * u[r];
      }
      make_short(v, m.width, epsilon);
      for (int64_t r = 0; r < m.height; ++r) u[r] = row(m, weight, r);
      make_short(u, m.height, epsilon);
    }
    for (int64_t r = 0; r < m.height; ++r) value += u[r] * row(m, weight, r);
  }

 private:
  double row(const WeightMatrix& m, const T* weight, int64_t r) const {
    double sum = 0;
    for (int64_t c = 0; c < m.width; ++c) sum += weight[m.at(r, c)] * v[c];
    return sum;
  }
  static void make_short(double* x, int64_t n, double epsilon) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
    for (int64_t i = 0; i < n; ++i) x[i] /= std::sqrt(squares) + epsilon;
  }
};

template <class T, bool kBack>
BoundKernel spectral_norm(const KernelSite& site) {
  const WeightMatrix m(site.in("Weight").shape, dim_of(site));
  const int weight_at = site.position("Weight"), u_at = site.position("U");
  const int v_at = site.position("V"), grad_at = kBack ? site.position("Out@GRAD") : -1;
  const int iterations = site.attr<int32_t>("power_iters");
  const double epsilon = site.attr<float>("eps");
  BoundKernel kernel([=](const KernelArgs& k) {
    const T* weight = k.in<T>(weight_at);
    Singular<T> found(m, k.scratch);
    found.find(m, weight, k.in<T>(u_at), k.in<T>(v_at), iterations, epsilon);
    T* out = k.out<T>(0);
    if constexpr (!kBack) {
      for (int64_t i = 0; i < m.height * m.width; ++i)
        out[i] = static_cast<T>(weight[i] / found.value);
    } else {
      // Of the singular vectors the weight is no function here, as it is none once they stand
      // still: (dOut - (dOut . Out) u v^T) / value.
      const T* grad = k.in<T>(grad_at);
      double along = 0;
      for (int64_t i = 0; i < m.height * m.width; ++i) along += grad[i] * weight[i] / found.value;
      for (int64_t r = 0; r < m.height; ++r) {
        for (int64_t c = 0; c < m.width; ++c) {
          const double uv = found.u[r] * found.v[c];
          out[m.at(r, c)] = static_cast<T>((grad[m.at(r, c)] - along * uv) / found.value);
        }
      }
    }
  });
  kernel.scratch = Singular<T>(m, nullptr).bytes;
  return kernel;
}

// A weight with one large singular value, so that iterations get there soon; U and V are near it.
OpSample spectral_sample(Draw& draw, int32_t dim, int32_t iterations) {
  OpSample sample;
  const int64_t height = draw.size(2, 3), width = draw.size(2, 4);
  Tensor weight = draw.uniform(dim == 0 ? Shape{height, width} : Shape{width, height}, 0.8, 1.2);
  sample.inputs["Weight"] = {weight};
  sample.inputs["U"] = {draw.uniform({height}, 0.4, 0.6)};
  sample.inputs["V"] = {draw.uniform({width}, 0.4, 0.6)};
  sample.attrs = {{"dim", dim}, {"power_iters", iterations}, {"eps", 1e-12f}};
  return sample;
}

}  // namespace

void register_spectral_norm(Registry& ops) {
  ops.op("spectral_norm")
      .doc(
          "Weight divided by its largest singular value, found by power iteration from U and V. "
          "The gradient takes the singular vectors as constants")
      .in("Weight", "two dimensions or more; the slices along `dim` are the rows of a matrix")
      .in("U", "as many numbers as there are rows: where the iteration begins")
      .in("V", "as many numbers as there are columns")
      .out("Out", "like Weight")
      .attr("dim", 0, "the dimension of the rows")
      .attr("power_iters", 1, "steps of the iteration")
      .at_least(0)
      .attr("eps", 1e-12f, "keeps the norms above zero")
      .shape(spectral_norm_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return spectral_norm<T, false>(s); }))
      .grad({"Weight", "U", "V"})
      .no_grad({"U", "V"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return spectral_norm<T, true>(s); }))
      .sample([](Draw& draw) { return spectral_sample(draw, 0, 0); })
      .sample([](Draw& draw) { return spectral_sample(draw, 1, 200); });
}

}  // namespace trireme
