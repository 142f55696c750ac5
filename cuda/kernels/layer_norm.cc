// layer_norm and its gradient: a block of threads a row; sums are of float64.
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/scratch.h"

namespace trireme::cuda {
namespace {

constexpr int kNormRowThreads = 256;
constexpr int64_t kNormChunks = 32;  // of rows whose sums are added up beside each other

struct LayerSite {
  AxisRows rows;  // X as a matrix: rows, and what is normalised together
  double epsilon;
  std::string type;

  explicit LayerSite(const KernelSite& site)
      : epsilon(site.attr<float>("epsilon")), type(type_text(site.in("X").dtype)) {
    const Shape& x = site.in("X").shape;
    const int axis = site.attr<int>("begin_norm_axis");
    rows.outer = x.product(0, axis).value();
    rows.extent = x.product(axis, x.rank()).value();
    rows.inner = 1;
  }
  // The deviation's inverse of a row, from the text of its variance.
  std::string inverse(const std::string& variance) const {
    return cat("(1.0 / sqrt((double)(", variance, ") + ", double_text(epsilon), "))");
  }
};

const void* in_or_none(const KernelArgs& k, int at) {
  return k.has_in(at) ? k.in(at).address() : nullptr;
}
const void* out_or_none(const KernelArgs& k, int at) {
  return k.has_out(at) ? k.out(at).address() : nullptr;
}

BoundKernel layer_norm_forward(const KernelSite& site) {
  const LayerSite layer(site);
  const std::string body =
      cat("typedef ", layer.type,
          " T; const T* x = (const T*)p.at[0] + x0; T* y = (T*)p.at[3] + x0;\n"
          "const T *scale = (const T*)p.at[1], *bias = (const T*)p.at[2];\n"
          "double part = 0;\nTR_EACH part += (double)x[j];\n"
          "const double mean = b_sum(part) / (double)extent;\npart = 0;\n"
          "TR_EACH { const double off = (double)x[j] - mean; part += off * off; }\n"
          "const double variance = b_sum(part) / (double)extent;\n"
          "if (threadIdx.x == 0 && p.at[4]) ((T*)p.at[4])[row] = (T)mean;\n"
          "if (threadIdx.x == 0 && p.at[5]) ((T*)p.at[5])[row] = (T)variance;\n"
          "const T m = (T)mean, inverse = (T)",
          layer.inverse("variance"),
          ";\nTR_EACH y[j] = (x[j] - m) * inverse * (scale ? scale[j] : (T)1) + "
          "(bias ? bias[j] : (T)0);\n");
  const int x = site.position("X"), scale = site.position("Scale"), bias = site.position("Bias");
  const int y = site.out_position("Y"), mean = site.out_position("Mean");
  const int variance = site.out_position("Variance");
  return on_queue(by_row(layer.rows, body, 6), [=](const KernelArgs& k) {
    return AddressList{k.in(x).address(),  in_or_none(k, scale), in_or_none(k, bias),
                       k.out(y).address(), out_or_none(k, mean), out_or_none(k, variance)};
  });
}

Launch input_gradient(const LayerSite& layer) {
  return by_row(layer.rows,
                cat("typedef ", layer.type,
                    " T; const T *x = (const T*)p.at[0] + x0, *grad = (const T*)p.at[1] + x0;\n"
                    "const T* scale = (const T*)p.at[2]; T* to = (T*)p.at[5] + x0;\n"
                    "const T mean = ((const T*)p.at[3])[row];\n"
                    "const double inverse = ",
                    layer.inverse("((const T*)p.at[4])[row]"),
                    ";\nconst T factor = (T)inverse;\ndouble own = 0, weighted = 0;\n"
                    "TR_EACH { const T g = grad[j] * (scale ? scale[j] : (T)1);\nown += (double)g; "
                    "weighted += (double)g * (double)((x[j] - mean) * factor); }\n"
                    "const T common = (T)(b_sum(own) / (double)extent);\n"
                    "const T slope = (T)(b_sum(weighted) / (double)extent);\n"
                    "TR_EACH to[j] = factor * (grad[j] * (scale ? scale[j] : (T)1) - common - "
                    "(x[j] - mean) * factor * slope);\n"),
                6);
}

// Scale@GRAD and Bias@GRAD: sums over chunks of rows first, then over the chunks, always in the
// same order. d.v: rows, columns, blocks of columns, chunks.
Launch column_parts(const LayerSite& layer) {
  const int64_t columns = layer.rows.extent,
                blocks = (columns + kNormRowThreads - 1) / kNormRowThreads;
  const std::string body =
      cat("typedef ", layer.type,
          " T; const int64 c = (int64)(blockIdx.x % d.v[2]) * blockDim.x + threadIdx.x;\n"
          "const int64 chunk = blockIdx.x / d.v[2]; if (c >= d.v[1]) return;\n"
          "const int64 begin = d.v[0] * chunk / d.v[3], end = d.v[0] * (chunk + 1) / d.v[3];\n"
          "const T *x = (const T*)p.at[0], *grad = (const T*)p.at[1], *mean = (const T*)p.at[2];\n"
          "double sum = 0, weighted = 0;\nfor (int64 r = begin; r < end; ++r) {\n"
          "const double g = (double)grad[r * d.v[1] + c]; sum += g;\n"
          "weighted += g * (double)(x[r * d.v[1] + c] - mean[r]) * ",
          layer.inverse("((const T*)p.at[3])[r]"),
          "; }\ndouble* to = (double*)p.at[4] + chunk * 2 * d.v[1];\n"
          "to[c] = sum; to[d.v[1] + c] = weighted;\n");
  return {.kernel = generated({.body = body, .addresses = 5, .numbers = 4}),
          .blocks = blocks * kNormChunks,
          .threads = kNormRowThreads,
          .numbers = {layer.rows.rows(), columns, blocks, kNormChunks}};
}

Launch column_sums(const LayerSite& layer) {
  const int64_t columns = layer.rows.extent;
  const std::string body =
      cat("typedef ", layer.type,
          " T; const int64 c = (int64)blockIdx.x * blockDim.x + threadIdx.x;\n"
          "if (c >= d.v[0]) return;\nconst double* from = (const double*)p.at[0];\n"
          "double sum = 0, weighted = 0;\nfor (int64 r = 0; r < d.v[1]; ++r) {\n"
          "sum += from[r * 2 * d.v[0] + c]; weighted += from[(r * 2 + 1) * d.v[0] + c]; }\n"
          "if (p.at[1]) ((T*)p.at[1])[c] = (T)weighted;\n"
          "if (p.at[2]) ((T*)p.at[2])[c] = (T)sum;\n");
  return {.kernel = generated({.body = body, .addresses = 3, .numbers = 2}),
          .blocks = (columns + kNormRowThreads - 1) / kNormRowThreads,
          .threads = kNormRowThreads,
          .numbers = {columns, kNormChunks}};
}

BoundKernel layer_norm_backward(const KernelSite& site) {
  const LayerSite layer(site);
  const Launch inputs = input_gradient(layer), parts = column_parts(layer);
  const Launch sums = column_sums(layer);
  const int x = site.position("X"), mean = site.position("Mean");
  const int variance = site.position("Variance"), scale = site.position("Scale");
  const int grad = site.position("Y@GRAD"), x_grad = site.out_position("X@GRAD");
  const int scale_grad = site.out_position("Scale@GRAD");
  const int bias_grad = site.out_position("Bias@GRAD");
  BoundKernel kernel = on_queue([=](const KernelArgs& k) {
    const void *from = k.in(x).address(), *arriving = k.in(grad).address();
    const void *means = k.in(mean).address(), *variances = k.in(variance).address();
    if (k.has_out(x_grad)) {
      launch(inputs,
             {from, arriving, in_or_none(k, scale), means, variances, k.out(x_grad).address()},
             *k.queue);
    }
    if (!k.has_out(scale_grad) && !k.has_out(bias_grad)) return;
    launch(parts, {from, arriving, means, variances, k.scratch}, *k.queue);
    launch(sums, {k.scratch, out_or_none(k, scale_grad), out_or_none(k, bias_grad)}, *k.queue);
  });
  kernel.scratch = static_cast<size_t>(kNormChunks * 2 * layer.rows.extent) * sizeof(double);
  return kernel;
}

}  // namespace

void add_layer_norm(DeviceKernels& kernels) {
  add_to(kernels, "layer_norm", "generated", untyped(layer_norm_forward));
  add_to(kernels, "layer_norm_grad", "generated", untyped(layer_norm_backward));
}

}  // namespace trireme::cuda
