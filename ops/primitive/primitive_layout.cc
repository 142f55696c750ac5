// Primitives that put the channels of images in blocks and take them out again.
#include "ops/loops.h"
#include "ops/nn/channel_blocks.h"
#include "ops/rules.h"

namespace trireme {
namespace {

template <bool kInto>
BoundKernel blocks_kernel(const KernelSite& site) {
  const Shape& plain = kInto ? site.in("A").shape : site.out("Out").shape;
  const Shape& blocked = kInto ? site.out("Out").shape : site.in("A").shape;
  const BlockedImage image{plain.at(1), plain.product(2, plain.rank()).value(),
                           blocked.at(blocked.rank() - 1)};
  const int64_t blocks = plain.at(0) * blocked.at(1);
  return by_size(site.in("A").dtype, [&]<class T>() {
    return BoundKernel(
        [image, blocks](const KernelArgs& k) {
          const T* from = raw_as<T>(k.in(0));
          T* to = raw_as<T>(k.out(0));
          const auto [begin, end] = k.range(blocks);
          for (int64_t i = begin; i < end; ++i) {
            if (kInto) {
              to_blocks(image, from, to, i);
            } else {
              from_blocks(image, from, to, i);
            }
          }
        },
        static_cast<int>(std::clamp<int64_t>(
            std::min(blocks, blocks * image.block * image.pixels / 16384), 1, 64)));
  });
}

}  // namespace

void register_primitive_layout(Registry& ops) {
  ops.primitive("p.to_blocks")
      .traits({.keeps_rows = true})
      .in("A", "[batch, channels, spatial...]")
      .out("Out", "[batch, channels / block, spatial..., block]")
      .required_attr<int32_t>("block", "how many channels stand side by side")
      .shape([](OpView& op) {
        const Dim block = op.attr<int32_t>("block");
        Shape shape = op.in("A").shape;
        shape[1] = shape[1] / block;
        shape.push_back(block);
        op.set_out("Out", op.in("A").dtype, shape);
        carry_lod(op, "Out", {"A"});
      })
      .kernel(untyped(blocks_kernel<true>));
  ops.primitive("p.from_blocks")
      .traits({.keeps_rows = true})
      .in("A", "[batch, channels / block, spatial..., block]")
      .out("Out", "[batch, channels, spatial...]")
      .shape([](OpView& op) {
        Shape shape = op.in("A").shape;
        shape[1] = shape[1] * shape.back();
        shape.erase(shape.rank() - 1);
        op.set_out("Out", op.in("A").dtype, shape);
        carry_lod(op, "Out", {"A"});
      })
      .kernel(untyped(blocks_kernel<false>));
}

}  // namespace trireme
