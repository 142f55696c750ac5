// Primitives that move, repeat or fill: transposes, broadcasts, constants, other names of a value.
#include <cstring>

#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/rules.h"

namespace trireme::cuda {
namespace {

BoundKernel strided_copy(const ValueInfo& in, const Shape& out, const Strides& strides) {
  const std::string type = bits_text(in.dtype);
  const std::string body = cat("((", type, "*)p.at[0])[at] = ((const ", type, "*)p.at[1])[o0];\n");
  return on_queue(pointwise(out, {strides}, body, 2), [](const KernelArgs& k) {
    return AddressList{k.out(0).address(), k.in(0).address()};
  });
}

BoundKernel transpose_kernel(const KernelSite& site) {
  const ValueInfo& in = site.in("A");
  const Strides own = strides_of(in.shape);
  Strides strides{};
  size_t d = 0;
  for (const int32_t axis : site.attr<std::vector<int32_t>>("perm")) {
    strides[d++] = own[static_cast<size_t>(axis < 0 ? axis + in.shape.rank() : axis)];
  }
  return strided_copy(in, site.out("Out").shape, strides);
}

BoundKernel broadcast_kernel(const KernelSite& site) {
  const ValueInfo& in = site.in("A");
  const Shape& out = site.out("Out").shape;
  broadcast_shapes(site, in.shape, out, -1);
  return strided_copy(in, out, broadcast_strides(in.shape, out));
}

BoundKernel rename_kernel(const KernelSite&) {
  return on_queue([](const KernelArgs& k) {
    const Tensor& from = k.in(0);
    Tensor& to = k.out(0);
    if (from.address() == to.address() || from.byte_size() == 0) return;
    static_cast<CudaQueue&>(*k.queue).device.copy(*k.queue, to.address(), from.address(),
                                                  from.byte_size());
  });
}

// The number as the CPU writes it into a tensor of the type: its bits go with the launch.
BoundKernel filling(const ValueInfo& out, const Shape& shape, double value) {
  Tensor one(out.dtype, Shape{1});
  fill(one, value, 0, 1);
  int64_t bits = 0;
  std::memcpy(&bits, one.address(), size_of(out.dtype));
  const std::string type = bits_text(out.dtype);
  const std::string body = cat("((", type, "*)p.at[0])[at] = (", type, ")d.v[1];\n");
  return on_queue(pointwise(shape, {}, body, 1, {bits}),
                  [](const KernelArgs& k) { return AddressList{k.out(0).address()}; });
}

BoundKernel fill_kernel(const KernelSite& site) {
  return filling(site.out("Out"), site.out("Out").shape, site.attr<double>("value"));
}

BoundKernel size_ratio_kernel(const KernelSite& site) {
  const auto large = static_cast<double>(site.in("A").shape.count());
  return filling(site.out("Out"), Shape{}, large / static_cast<double>(site.in("B").shape.count()));
}

}  // namespace

void add_moves(DeviceKernels& kernels) {
  add_to(kernels, "p.transpose", "generated", untyped(transpose_kernel));
  add_to(kernels, "p.broadcast_like", "generated", untyped(broadcast_kernel));
  for (const char* type :
       {"p.reshape", "p.reshape_like", "p.flatten2d", "p.align", "p.unsqueeze", "p.squeeze"}) {
    add_to(kernels, type, "copy", untyped(rename_kernel));
  }
  add_to(kernels, "p.constant", "generated", untyped(fill_kernel));
  add_to(kernels, "p.full_like", "generated", untyped(fill_kernel));
  add_to(kernels, "p.size_ratio", "generated", untyped(size_ratio_kernel));
}

}  // namespace trireme::cuda
