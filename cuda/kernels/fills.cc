// Tensors of one number, and rows picked by index: fill_constant, gather, one_hot.
#include <cstring>

#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/faults.h"
#include "cuda/kernels/register.h"
#include "ops/rules.h"
#include "ops/tensor/fill.h"

namespace trireme::cuda {
namespace {

const void* fault_of(const KernelArgs& k) { return static_cast<CudaQueue&>(*k.queue).fault; }

// ---- fill_constant

BoundKernel constant_kernel(const KernelSite& site) {
  const ValueInfo& out = site.out("Out");
  const int tensor = site.schema().find_input("ValueTensor") ? site.position("ValueTensor") : -1;
  if (tensor >= 0) {
    const std::string from = type_text(site.in("ValueTensor").dtype), to = type_text(out.dtype);
    return on_queue(
        pointwise(out.shape, {},
                  cat("((", to, "*)p.at[0])[at] = (", to, ")((const ", from, "*)p.at[1])[0];\n"),
                  2),
        [tensor](const KernelArgs& k) {
          return AddressList{k.out(0).address(), k.in(tensor).address()};
        });
  }
  Tensor one(out.dtype, Shape{1});
  fill_number(one, filled_number(site));
  int64_t bits = 0;
  std::memcpy(&bits, one.address(), size_of(out.dtype));
  const std::string type = bits_text(out.dtype);
  const std::string body = cat("((", type, "*)p.at[0])[at] = (", type, ")d.v[1];\n");
  return on_queue(pointwise(out.shape, {}, body, 1, {bits}),
                  [](const KernelArgs& k) { return AddressList{k.out(0).address()}; });
}

// ---- gather

struct Gather {
  int64_t count, extent, width;
  std::string index_type;
  int code;

  explicit Gather(const KernelSite& site)
      : count(site.in("Index").shape.count()),
        extent(site.in("X").shape.at(0)),
        width(site.in("X").shape.product(1, site.in("X").shape.rank()).value()),
        index_type(type_text(site.in("Index").dtype)),
        code(fault_code(
            {.what = "index",
             .rest = cat(site.in("Index").name, " is not a row of X, which has ", extent, " rows"),
             .fix = cat("use indices from 0 to ", extent - 1)})) {}
};

BoundKernel gather_forward(const KernelSite& site) {
  const Gather sizes(site);
  const std::string type = bits_text(site.in("X").dtype);
  const std::string body =
      cat("const int64 i = at / d.v[1], j = at % d.v[1], id = ((const ", sizes.index_type,
          "*)p.at[1])[i];\nconst bool there = id >= 0 && id < d.v[2];\n"
          "if (!there && j == 0) raise(p.at[2], ",
          sizes.code, ", i, id);\n((", type, "*)p.at[3])[at] = there ? ((const ", type,
          "*)p.at[0])[id * d.v[1] + j] : 0;\n");
  const int x = site.position("X"), index = site.position("Index");
  const int out = site.out_position("Out");
  return on_queue(
      pointwise(Shape{sizes.count, sizes.width}, {}, body, 4, {sizes.width, sizes.extent}),
      [=](const KernelArgs& k) {
        return AddressList{k.in(x).address(), k.in(index).address(), fault_of(k),
                           k.out(out).address()};
      });
}

// A thread for each element of X adds up what its row's places bring, in their order.
BoundKernel gather_backward(const KernelSite& site) {
  const Gather sizes(site);
  const std::string type = type_text(site.in("X").dtype);
  const std::string body =
      cat("const int64 row = at / d.v[1], j = at % d.v[1];\nconst ", sizes.index_type,
          "* index = (const ", sizes.index_type, "*)p.at[1];\n", type,
          " sum = 0;\nfor (int64 i = 0; i < d.v[2]; ++i) if (index[i] == row) sum += ((const ",
          type, "*)p.at[0])[i * d.v[1] + j];\n((", type, "*)p.at[2])[at] = sum;\n");
  const int grad = site.position("Out@GRAD"), index = site.position("Index");
  const int to = site.out_position("X@GRAD");
  return on_queue(
      pointwise(Shape{sizes.extent, sizes.width}, {}, body, 3, {sizes.width, sizes.count}),
      [=](const KernelArgs& k) {
        return AddressList{k.in(grad).address(), k.in(index).address(), k.out(to).address()};
      });
}

// ---- one_hot

BoundKernel one_hot_kernel(const KernelSite& site) {
  const int64_t depth = site.out("Out").shape.back().value(), n = site.in("X").shape.count();
  const std::string type = type_text(site.out("Out").dtype);
  const std::string id_type = type_text(site.in("X").dtype);
  const int code = fault_code({.what = "class",
                               .rest = cat(site.in("X").name, " is not below the depth ", depth),
                               .fix = "give a larger depth, or set allow_out_of_range"});
  const std::string body = cat(
      "const int64 i = at / d.v[1], j = at % d.v[1], id = ((const ", id_type, "*)p.at[0])[i];\n",
      site.attr<bool>("allow_out_of_range")
          ? std::string()
          : cat("if (j == 0 && (id < 0 || id >= d.v[1])) raise(p.at[1], ", code, ", i, id);\n"),
      "((", type, "*)p.at[2])[at] = (", type, ")(id == j);\n");
  const int x = site.position("X");
  return on_queue(pointwise(Shape{n, depth}, {}, body, 3, {depth}), [=](const KernelArgs& k) {
    return AddressList{k.in(x).address(), fault_of(k), k.out(0).address()};
  });
}

}  // namespace

void add_fills(DeviceKernels& kernels) {
  for (const char* type : {"fill_constant", "fill_constant_batch_size_like"}) {
    add_to(kernels, type, "generated", untyped(constant_kernel));
  }
  add_to(kernels, "gather", "generated", untyped(gather_forward));
  add_to(kernels, "gather_grad", "generated", untyped(gather_backward));
  for (const char* type : {"one_hot", "one_hot_v2"}) {
    add_to(kernels, type, "generated", untyped(one_hot_kernel));
  }
}

}  // namespace trireme::cuda
