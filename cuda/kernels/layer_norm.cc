// layer_norm and its gradient: a block of threads a row; sums are of float64.
#include <algorithm>

#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/scratch.h"

namespace trireme::cuda {
namespace {

constexpr int kNormRowThreads = 256;
// Chunks of rows are added up beside each other.
constexpr int64_t kRowsPerChunk = 16, kMostChunks = 256;

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

int64_t chunks_of(const LayerSite& layer) {
  return std::clamp<int64_t>(layer.rows.rows() / kRowsPerChunk, 1, kMostChunks);
}

// Scale@GRAD and Bias@GRAD: sums over chunks of rows first, then over the chunks, always in the
// same order. d.v: rows, columns, blocks of columns, chunks.
Launch column_parts(const LayerSite& layer) {
  const int64_t columns = layer.rows.extent, chunks = chunks_of(layer),
                blocks = (columns + kNormRowThreads - 1) / kNormRowThreads;
  const std::string body =
      cat("typedef ", layer.type,
          " T; const int64 c = (int64)(blockIdx.x % d.v[2]) * blockDim.x + threadIdx.x;\n"
          "const int64 chunk = blockIdx.x / d.v[2];\n"
          "const int64 begin = d.v[0] * chunk / d.v[3], end = d.v[0] * (chunk + 1) / d.v[3];\n"
          "const T *x = (const T*)p.at[0], *grad = (const T*)p.at[1], *mean = (const T*)p.at[2];\n"
          "__shared__ double inverses[",
          kNormRowThreads,
          "];\ndouble sum = 0, weighted = 0;\n"
          "for (int64 first = begin; first < end; first += blockDim.x) {\n"
          "const int64 until = e_min(first + (int64)blockDim.x, end), own = first + threadIdx.x;\n"
          "__syncthreads();\nif (own < end) inverses[threadIdx.x] = ",
          layer.inverse("((const T*)p.at[3])[own]"),
          ";\n__syncthreads();\nif (c >= d.v[1]) continue;\n#pragma unroll 4\n"
          "for (int64 r = first; r < until; ++r) {\n"
          "const double g = (double)grad[r * d.v[1] + c]; sum += g;\n"
          "weighted += g * (double)(x[r * d.v[1] + c] - mean[r]) * inverses[r - first]; } }\n"
          "if (c >= d.v[1]) return;\ndouble* to = (double*)p.at[4] + chunk * 2 * d.v[1];\n"
          "to[c] = sum; to[d.v[1] + c] = weighted;\n");
  return {.kernel = generated({.body = body, .addresses = 5, .numbers = 4}),
          .blocks = blocks * chunks,
          .threads = kNormRowThreads,
          .numbers = {layer.rows.rows(), columns, blocks, chunks}};
}

// Eight columns a block, whose chunks its warps' quarters share.
Launch column_sums(const LayerSite& layer) {
  constexpr int64_t kColumns = 8;
  const int64_t columns = layer.rows.extent;
  const std::string body =
      cat("typedef ", layer.type, " T; __shared__ double held[2][", kNormRowThreads,
          "];\nconst int64 c = (int64)blockIdx.x * 8 + threadIdx.x % 8;\n"
          "const double* from = (const double*)p.at[0];\n"
          "double sum = 0, weighted = 0;\nif (c < d.v[0]) {\n#pragma unroll 4\n"
          "for (int64 r = threadIdx.x / 8; r < d.v[1]; r += blockDim.x / 8) {\n"
          "sum += from[r * 2 * d.v[0] + c]; weighted += from[(r * 2 + 1) * d.v[0] + c]; } }\n"
          "held[0][threadIdx.x] = sum; held[1][threadIdx.x] = weighted;\n__syncthreads();\n"
          "for (unsigned w = blockDim.x / 2; w >= 8; w /= 2) {\nif (threadIdx.x < w) {\n"
          "held[0][threadIdx.x] += held[0][threadIdx.x + w];\n"
          "held[1][threadIdx.x] += held[1][threadIdx.x + w]; }\n__syncthreads(); }\n"
          "if (threadIdx.x >= 8 || c >= d.v[0]) return;\n"
          "if (p.at[1]) ((T*)p.at[1])[c] = (T)held[1][threadIdx.x];\n"
          "if (p.at[2]) ((T*)p.at[2])[c] = (T)held[0][threadIdx.x];\n");
  return {.kernel = generated({.body = body, .addresses = 3, .numbers = 2}),
          .blocks = (columns + kColumns - 1) / kColumns,
          .threads = kNormRowThreads,
          .numbers = {columns, chunks_of(layer)}};
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
  kernel.scratch = static_cast<size_t>(chunks_of(layer) * 2 * layer.rows.extent) * sizeof(double);
  return kernel;
}

}  // namespace

void add_layer_norm(DeviceKernels& kernels) {
  add_to(kernels, "layer_norm", "generated", untyped(layer_norm_forward));
  add_to(kernels, "layer_norm_grad", "generated", untyped(layer_norm_backward));
}

}  // namespace trireme::cuda
