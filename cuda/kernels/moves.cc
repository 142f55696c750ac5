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

// Matrices of `rows` times `columns` elements, each written column by column: squares of 32 go
// through the memory of a block, so that both sides are read and written in their order.
Launch turning(const std::string& type, int64_t matrices, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = 32, kMostBlocks = int64_t{1} << 20;
  const int64_t down = (rows + kSide - 1) / kSide, across = (columns + kSide - 1) / kSide;
  const std::string body =
      cat("typedef ", type,
          " T; __shared__ T square[32][33];\n"
          "const int64 rows = d.v[1], columns = d.v[2], down = d.v[3], across = d.v[4];\n"
          "const int x = threadIdx.x % 32, y = threadIdx.x / 32;\n"
          "for (int64 b = blockIdx.x; b < d.v[0] * down * across; b += gridDim.x) {\n"
          "const int64 base = b / (down * across) * rows * columns;\n"
          "const int64 r0 = b / across % down * 32, c0 = b % across * 32;\n"
          "for (int k = y; k < 32; k += 8) if (r0 + k < rows && c0 + x < columns)"
          " square[k][x] = ((const T*)p.at[1])[base + (r0 + k) * columns + c0 + x];\n"
          "__syncthreads();\n"
          "for (int k = y; k < 32; k += 8) if (c0 + k < columns && r0 + x < rows)"
          " ((T*)p.at[0])[base + (c0 + k) * rows + r0 + x] = square[x][k];\n__syncthreads(); }\n");
  return {.kernel = generated({.body = body, .addresses = 2, .numbers = 5}),
          .blocks = std::min(matrices * down * across, kMostBlocks),
          .threads = 256,
          .numbers = {matrices, rows, columns, down, across}};
}

// [batch, channels, pixels] to [batch, channels / block, pixels, block], or back.
BoundKernel blocks_kernel(const KernelSite& site, bool into) {
  const Shape& blocked = into ? site.out("Out").shape : site.in("A").shape;
  const int64_t block = blocked.at(blocked.rank() - 1);
  const int64_t pixels = blocked.product(2, blocked.rank() - 1).value();
  const int64_t matrices = blocked.at(0) * blocked.at(1);
  const std::string type = bits_text(site.in("A").dtype);
  Launch turn = turning(type, matrices, into ? block : pixels, into ? pixels : block);
  if (block < 16) {  // squares would be empty for the most part
    Strides strides{};
    strides = into ? Strides{block * pixels, 1, pixels} : Strides{block * pixels, 1, block};
    turn =
        pointwise(into ? Shape{matrices, pixels, block} : Shape{matrices, block, pixels}, {strides},
                  cat("((", type, "*)p.at[0])[at] = ((const ", type, "*)p.at[1])[o0];\n"), 2);
  }
  return on_queue(std::move(turn), [](const KernelArgs& k) {
    return AddressList{k.out(0).address(), k.in(0).address()};
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
  add_to(kernels, "p.transpose", "generated", untyped(transpose_kernel), Halves::taken);
  add_to(kernels, "p.broadcast_like", "generated", untyped(broadcast_kernel), Halves::taken);
  for (const char* type :
       {"p.reshape", "p.reshape_like", "p.flatten2d", "p.align", "p.unsqueeze", "p.squeeze"}) {
    add_to(kernels, type, "copy", untyped(rename_kernel), Halves::taken);
  }
  for (const bool into : {true, false}) {
    add_to(kernels, into ? "p.to_blocks" : "p.from_blocks", "generated",
           untyped([into](const KernelSite& site) { return blocks_kernel(site, into); }),
           Halves::taken);
  }
  add_to(kernels, "p.constant", "generated", untyped(fill_kernel), Halves::taken);
  add_to(kernels, "p.full_like", "generated", untyped(fill_kernel), Halves::taken);
  add_to(kernels, "p.size_ratio", "generated", untyped(size_ratio_kernel), Halves::taken);
}

}  // namespace trireme::cuda
