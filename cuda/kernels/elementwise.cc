// Elementwise primitives: one number in, one number out, with numpy broadcasting.
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {
namespace {

BoundKernel elementwise_kernel(const KernelSite& site, const std::string& function) {
  const ValueInfo& out = *site.out_at(0);
  const size_t count = site.in_size();
  std::vector<Strides> strides;
  std::string call;
  for (size_t i = 0; i < count; ++i) {
    const ValueInfo& in = *site.in_at(i);
    strides.push_back(broadcast_strides(in.shape, out.shape));
    call += cat(i ? ", " : "", "(", number_type(in.dtype), ")((const ", type_text(in.dtype),
                "*)p.at[", i + 1, "])[o", i, "]");
  }
  const std::string type = type_text(out.dtype);
  const std::string body =
      cat("((", type, "*)p.at[0])[at] = (", type, ")", function, "(", call, ");\n");
  return on_queue(pointwise(out.shape, strides, body, static_cast<int>(count) + 1),
                  [count](const KernelArgs& k) {
                    AddressList at{k.out(0).address()};
                    for (size_t i = 0; i < count; ++i) {
                      at.push_back(k.in(static_cast<int>(i)).address());
                    }
                    return at;
                  });
}

BoundKernel cast_kernel(const KernelSite& site) {
  const ValueInfo& in = site.in("A");
  const std::string from = type_text(in.dtype), to = type_text(site.out("Out").dtype);
  const std::string body = cat("((", to, "*)p.at[0])[at] = (", to, ")(", number_type(in.dtype),
                               ")((const ", from, "*)p.at[1])[at];\n");
  return on_queue(pointwise(in.shape, {}, body, 2), [](const KernelArgs& k) {
    return AddressList{k.out(0).address(), k.in(0).address()};
  });
}

BoundKernel select_kernel(const KernelSite& site) {
  const ValueInfo& out = site.out("Out");
  const std::string type = bits_text(out.dtype);
  const std::string body = cat("((", type, "*)p.at[0])[at] = ((const bool*)p.at[1])[o0] ? ((const ",
                               type, "*)p.at[2])[o1] : ((const ", type, "*)p.at[3])[o2];\n");
  std::vector<Strides> strides;
  for (const char* slot : {"A", "B", "C"}) {
    strides.push_back(broadcast_strides(site.in(slot).shape, out.shape));
  }
  return on_queue(pointwise(out.shape, strides, body, 4), [](const KernelArgs& k) {
    return AddressList{k.out(0).address(), k.in(0).address(), k.in(1).address(), k.in(2).address()};
  });
}

}  // namespace

void add_elementwise(DeviceKernels& kernels) {
  for (const char* name :
       {"neg",   "abs",        "sign",      "square",  "exp",      "log", "log1p", "sqrt",
        "rsqrt", "reciprocal", "tanh",      "sigmoid", "sin",      "cos", "erf",   "floor",
        "ceil",  "round",      "is_finite", "not",     "add",      "sub", "mul",   "div",
        "pow",   "max",        "min",       "mod",     "floordiv", "eq",  "ne",    "lt",
        "le",    "gt",         "ge",        "and",     "or",       "xor"}) {
    const std::string function = cat("e_", name);
    add_to(kernels, cat("p.", name), "generated", untyped([function](const KernelSite& site) {
             return elementwise_kernel(site, function);
           }),
           Halves::taken);
  }
  add_to(kernels, "p.select", "generated", untyped(select_kernel), Halves::taken);
  add_to(kernels, "p.cast", "generated", untyped(cast_kernel), Halves::taken);
}

}  // namespace trireme::cuda
