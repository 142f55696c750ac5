// softmax over one axis: a block of threads a row.
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/rules.h"

namespace trireme::cuda {
namespace {

bool softmax_takes(DType dtype, std::string* why_not) {
  if (dtype == DType::float32 || dtype == DType::float64) return true;
  if (why_not) *why_not = cat("no kernel for ", name_of(dtype));
  return false;
}

AxisRows softmax_rows(const KernelSite& site, const Shape& shape) {
  return AxisRows(shape, normal_axis(site, site.attr<int>("axis"), shape.rank()));
}

// As the CPU's: what lies 64 below the largest counts as 64 below, so no probability is 0.
std::optional<BoundKernel> softmax_kernel(const KernelSite& site, std::string* why_not) {
  const ValueInfo& x = site.in("X");
  if (!softmax_takes(x.dtype, why_not)) return std::nullopt;
  const std::string body =
      cat("typedef ", type_text(x.dtype),
          " T; const T* x = (const T*)p.at[1] + x0; T* out = (T*)p.at[0] + x0;\n"
          "T own = x[0];\nTR_EACH own = e_max(own, x[j * step]);\n"
          "const T top = b_max(own);\nT part = 0;\n"
          "TR_EACH { const T below = x[j * step] - top;\n"
          "const T e = e_exp(below < (T)-64 ? (T)-64 : below);\n"
          "out[j * step] = e; part += e; }\n"
          "const T sum = b_sum(part);\nTR_EACH out[j * step] /= sum;\n");
  return on_queue(by_row(softmax_rows(site, x.shape), body, 2), [](const KernelArgs& k) {
    return AddressList{k.out(0).address(), k.in(0).address()};
  });
}

std::optional<BoundKernel> softmax_grad_kernel(const KernelSite& site, std::string* why_not) {
  const ValueInfo& out = site.in("Out");
  if (!softmax_takes(out.dtype, why_not)) return std::nullopt;
  const int out_at = site.position("Out"), grad_at = site.position("Out@GRAD");
  const int x_grad_at = site.out_position("X@GRAD");
  const std::string body =
      cat("typedef ", type_text(out.dtype),
          " T; const T* y = (const T*)p.at[1] + x0; const T* g = (const T*)p.at[2] + x0;\n"
          "T* to = (T*)p.at[0] + x0; T part = 0;\n"
          "TR_EACH part += g[j * step] * y[j * step];\nconst T sum = b_sum(part);\n"
          "TR_EACH to[j * step] = y[j * step] * (g[j * step] - sum);\n");
  return on_queue(by_row(softmax_rows(site, out.shape), body, 3), [=](const KernelArgs& k) {
    return AddressList{k.out(x_grad_at).address(), k.in(out_at).address(), k.in(grad_at).address()};
  });
}

}  // namespace

void add_softmax(DeviceKernels& kernels) {
  add_to(kernels, "softmax", "generated", softmax_kernel);
  add_to(kernels, "softmax_grad", "generated", softmax_grad_kernel);
}

}  // namespace trireme::cuda
