// Kernels of two-dimensional convolutions and their transposes on oneDNN, for float32.
#include "ops/nn/conv.h"
#include "cpu/kernels/conv_onednn.h"
#include "cpu/kernels/register.h"

namespace trireme {
namespace {

bool fits_onednn(const KernelSite& site, std::string* why_not) {
  const char* reason = !has_onednn()                          ? "built without oneDNN"
                       : kernel_dtype(site) != DType::float32 ? "only for float32"
                                                              : nullptr;
  if (reason && why_not) *why_not = reason;
  return !reason;
}

std::optional<BoundKernel> onednn_forward(const KernelSite& site, const ConvKind& kind,
                                          std::string* why_not) {
  if (!fits_onednn(site, why_not)) return std::nullopt;
  const Conv conv = kind.site(site);
  const int input = site.position("Input"), filter = site.position("Filter"),
            out = site.out_position("Output");
  ConvOperands at{.image = kind.transposed ? out : input,
                  .map = kind.transposed ? input : out,
                  .filter = filter};
  if (site.schema().find_input("Bias") && site.has("Bias")) {
    at.bias = site.position("Bias");
    at.sums = bias_of(site, conv, kind);
  }
  if (site.schema().find_input("ResidualData") && site.has("ResidualData")) {
    at.residual = site.position("ResidualData");
  }
  at.relu = site.decided().relu;
  BoundKernel made;
  if (site.decided().stays && add_inference_phases(conv.shape, at, made, why_not)) return made;
  if (at.residual >= 0) return std::nullopt;  // the products add it, in a loop of their own
  const ConvResult wanted = kind.transposed ? ConvResult::image : ConvResult::map;
  if (!add_conv_phases(conv.shape, wanted, at, made, why_not)) return std::nullopt;
  return made;
}

std::optional<BoundKernel> onednn_backward(const KernelSite& site, const ConvKind& kind,
                                           std::string* why_not) {
  if (!fits_onednn(site, why_not)) return std::nullopt;
  const Conv conv = kind.site(site);
  const int input = site.position("Input"), filter = site.position("Filter"),
            grad = site.position("Output@GRAD");
  BoundKernel made;
  if (site.wants("Input@GRAD")) {
    const int result = site.out_position("Input@GRAD");
    const ConvOperands at{.image = kind.transposed ? grad : result,
                          .map = kind.transposed ? result : grad,
                          .filter = filter};
    const ConvResult wanted = kind.transposed ? ConvResult::map : ConvResult::image;
    if (!add_conv_phases(conv.shape, wanted, at, made, why_not)) return std::nullopt;
  }
  if (site.wants("Filter@GRAD")) {
    const ConvOperands at{.image = kind.transposed ? grad : input,
                          .map = kind.transposed ? input : grad,
                          .filter = site.out_position("Filter@GRAD")};
    if (!add_conv_phases(conv.shape, ConvResult::filter, at, made, why_not)) return std::nullopt;
  }
  if (site.schema().find_output("Bias@GRAD") && site.wants("Bias@GRAD")) {
    const auto sum = [shape = bias_of(site, conv, kind), grad,
                      result = site.out_position("Bias@GRAD")](const KernelArgs& k) {
      if (k.part == 0) bias_grad(shape, k.in<float>(grad), k.out<float>(result));
    };
    if (made.run) {
      made.then.emplace_back(sum);
    } else {
      made.run = sum;
    }
  }
  return made;
}

}  // namespace

void add_conv_kernels(Registry& ops) {
  const auto add = [&](const std::string& row, ConvKind kind) {
    const auto forward = [kind](const KernelSite& site, std::string* why_not) {
      return onednn_forward(site, kind, why_not);
    };
    const auto backward = [kind](const KernelSite& site, std::string* why_not) {
      return onednn_backward(site, kind, why_not);
    };
    ops.add_kernels(row, {{"onednn", forward}});
    ops.add_kernels(row + "_grad", {{"onednn", backward}});
  };
  for (const char* row : {"conv2d", "depthwise_conv2d"}) add(row, {});
  for (const char* row : {"conv2d_transpose", "depthwise_conv2d_transpose"}) {
    add(row, {.transposed = true});
  }
}

}  // namespace trireme
