// dropout: zeroes elements at random while training; the mask is kept for the gradient.
#include "ops/nn/dropout.h"
#include "ir/schema.h"
#include "ops/tensor/original_random.h"

namespace trireme {
namespace {

void dropout_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  op.set_out_like("Out", x);
  op.set_out("Mask", DType::uint8, x.shape);
}

template <class T>
BoundKernel dropout(const KernelSite& site) {
  const DropoutOptions options(site);
  const int64_t count = site.in("X").shape.count();
  const int x_at = site.position("X"), out_at = site.out_position("Out"),
            mask_at = site.out_position("Mask");
  if (options.is_test) {
    return BoundKernel(
        [=, scale = static_cast<T>(options.test_scale())](const KernelArgs& k) {
          const auto [begin, end] = k.range(count);
          for (int64_t i = begin; i < end; ++i) k.out<T>(out_at)[i] = k.in<T>(x_at)[i] * scale;
          if (k.has_out(mask_at)) {
            std::fill(k.out<uint8_t>(mask_at) + begin, k.out<uint8_t>(mask_at) + end, uint8_t{1});
          }
        },
        draw_parts(count));
  }
  return BoundKernel(
      [=, source = MaskSource(site),
       scale = static_cast<T>(options.train_scale())](const KernelArgs& k) {
        const RandomSource random = source.of_run(k);
        const T* x = k.in<T>(x_at);
        T* out = k.out<T>(out_at);
        uint8_t* mask = k.has_out(mask_at) ? k.out<uint8_t>(mask_at) : nullptr;
        const auto set = [=](int64_t i, bool keep) {
          out[i] = keep ? x[i] * scale : T(0);
          if (mask) mask[i] = keep;
        };
        if (const auto seed = random.original_seed()) {
          OriginalRandom original(*seed);
          const auto probability = static_cast<float>(options.probability);
          for (int64_t i = 0; i < count && k.part == 0; ++i) {
            set(i, original.fraction<float>() >= probability);
          }
          return;
        }
        const Philox philox = random.philox(k);
        const auto [begin, end] = k.range(count);
        for (int64_t i = begin; i < end; ++i) {
          set(i, philox.uniform(static_cast<uint64_t>(i)) >= options.probability);
        }
      },
      draw_parts(count));
}

template <class T>
BoundKernel dropout_grad(const KernelSite& site) {
  const DropoutOptions options(site);
  const int64_t count = site.in("Out@GRAD").shape.count();
  const int mask_at = site.position("Mask"), grad_at = site.position("Out@GRAD");
  const int x_grad_at = site.out_position("X@GRAD");
  const auto scale = static_cast<T>(options.is_test ? options.test_scale() : options.train_scale());
  return BoundKernel(
      [=](const KernelArgs& k) {
        const uint8_t* mask = k.in<uint8_t>(mask_at);
        const T* grad = k.in<T>(grad_at);
        T* x_grad = k.out<T>(x_grad_at);
        const auto [begin, end] = k.range(count);
        for (int64_t i = begin; i < end; ++i) {
          x_grad[i] = options.is_test || mask[i] ? grad[i] * scale : T(0);
        }
      },
      draw_parts(count));
}

OpSample dropout_sample(Draw& d, const char* implementation, bool is_test) {
  return {.inputs = {{"X", {d.uniform(d.shape(1, 4))}}},
          .attrs = {{"dropout_prob", 0.4f},
                    {"is_test", is_test},
                    {"fix_seed", true},
                    {"seed", 7},
                    {"dropout_implementation", std::string(implementation)}}};
}

}  // namespace

void register_dropout(Registry& ops) {
  ops.op("dropout")
      .in("X", "any shape, floating point")
      .in_optional("Seed", "[1]: the seed to use, computed by the program")
      .out("Out", "X with elements zeroed")
      .out_intermediate("Mask", "1 where an element was kept, uint8")
      .attr("dropout_prob", 0.5f, "the share of elements to zero")
      .between(0, 1)
      .attr("is_test", false, "keep every element")
      .attr("fix_seed", false, "zero the same elements at every run")
      .attr("seed", 0, "the same seed zeroes the same elements; 0: others in every process")
      .attr("dropout_implementation", "downgrade_in_infer",
            "upscale_in_train divides what is kept by 1 - dropout_prob; downgrade_in_infer "
            "multiplies by it when testing")
      .one_of({"downgrade_in_infer", "upscale_in_train"})
      .shape(dropout_shape)
      .traits({.random = true})
      .inplace("X", "Out")
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& site) { return dropout<T>(site); }))
      .grad({"Mask"})
      .no_grad({"Seed"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return dropout_grad<T>(site); }))
      .grad_definition([](Body& b) {
        const DropoutOptions options(b.op());
        const Expr grad = b.in("Out@GRAD");
        b.out("X@GRAD") = options.is_test
                              ? grad * options.test_scale()
                              : grad * cast(b.in("Mask"), grad.dtype()) * options.train_scale();
      })
      .sample([](Draw& d) { return dropout_sample(d, "downgrade_in_infer", false); })
      .sample([](Draw& d) { return dropout_sample(d, "upscale_in_train", false); })
      .sample([](Draw& d) { return dropout_sample(d, "downgrade_in_infer", true); });
}

}  // namespace trireme
