// dropout and its gradient: the mask is the CPU's, drawn by Philox 4x32-10 (core/random.h).
#include "ops/nn/dropout.h"
#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {
namespace {

// Numbers that a run changes, and where they stand in d.v: seed, stream, first element.
constexpr size_t kSeedAt = 1;

// The uniform number of element `at`, 53 random bits: as Philox::uniform.
constexpr const char* kUniformText =
    "const uint64 e = (uint64)d.v[3] + (uint64)at, block = e / 2;\n"
    "uint32 c0 = (uint32)block, c1 = (uint32)(block >> 32);\n"
    "uint32 c2 = (uint32)(uint64)d.v[2], c3 = (uint32)((uint64)d.v[2] >> 32);\n"
    "uint32 k0 = (uint32)(uint64)d.v[1], k1 = (uint32)((uint64)d.v[1] >> 32);\n"
    "for (int round = 0; round < 10; ++round) {\n"
    "const uint64 a = (uint64)0xd2511f53u * c0, b = (uint64)0xcd9e8d57u * c2;\n"
    "const uint32 n0 = (uint32)(b >> 32) ^ c1 ^ k0, n2 = (uint32)(a >> 32) ^ c3 ^ k1;\n"
    "c1 = (uint32)b; c3 = (uint32)a; c0 = n0; c2 = n2;\n"
    "k0 += 0x9e3779b9u; k1 += 0xbb67ae85u; }\n"
    "const uint64 bits = e % 2 == 0 ? (uint64)c0 << 32 | c1 : (uint64)c2 << 32 | c3;\n"
    "const double uniform = (double)(bits >> 11) * (1.0 / 9007199254740992.0);\n";

std::string scale_text(double scale) { return cat("(T)", double_text(scale)); }

BoundKernel dropout_test(const KernelSite& site, const DropoutOptions& options) {
  const std::string type = type_text(site.in("X").dtype);
  const std::string body =
      cat("typedef ", type, " T;\n((T*)p.at[1])[at] = ((const T*)p.at[0])[at] * ",
          scale_text(options.test_scale()), ";\nif (p.at[2]) ((uint8*)p.at[2])[at] = 1;\n");
  const int x = site.position("X"), out = site.out_position("Out");
  const int mask = site.out_position("Mask");
  return on_queue(pointwise(site.in("X").shape, {}, body, 3), [=](const KernelArgs& k) {
    return AddressList{k.in(x).address(), k.out(out).address(),
                       k.has_out(mask) ? k.out(mask).address() : nullptr};
  });
}

BoundKernel dropout_forward(const KernelSite& site) {
  const DropoutOptions options(site);
  if (options.is_test) return dropout_test(site, options);
  const std::string type = type_text(site.in("X").dtype);
  const std::string body = cat("typedef ", type, " T;\n", kUniformText,
                               "const bool keep = uniform >= ", double_text(options.probability),
                               ";\n((T*)p.at[1])[at] = keep ? ((const T*)p.at[0])[at] * ",
                               scale_text(options.train_scale()),
                               " : (T)0;\nif (p.at[2]) ((uint8*)p.at[2])[at] = keep;\n");
  const int x = site.position("X"), out = site.out_position("Out");
  const int mask = site.out_position("Mask");
  const MaskSource source(site);
  // Its numbers change from run to run, so the launch is this kernel's own.
  Launch own = pointwise(site.in("X").shape, {}, body, 3, {0, 0, 0});
  return on_queue([=, own = std::move(own)](const KernelArgs& k) mutable {
    const RandomSource random = source.of_run(k);
    if (random.original_seed()) {
      throw Error(ErrorKind::unimplemented,
                  "FLAGS_original_random draws the original's numbers on CPU places")
          .fix("unset it, or run on a CPUPlace");
    }
    const Philox philox = random.philox(k);
    own.numbers[kSeedAt] = static_cast<int64_t>(philox.seed());
    own.numbers[kSeedAt + 1] = static_cast<int64_t>(philox.stream());
    own.numbers[kSeedAt + 2] = static_cast<int64_t>(philox.first());
    launch(own,
           {k.in(x).address(), k.out(out).address(),
            k.has_out(mask) ? k.out(mask).address() : nullptr},
           *k.queue);
  });
}

BoundKernel dropout_backward(const KernelSite& site) {
  const DropoutOptions options(site);
  const std::string type = type_text(site.in("Out@GRAD").dtype);
  const std::string scale =
      scale_text(options.is_test ? options.test_scale() : options.train_scale());
  const std::string body = cat("typedef ", type, " T;\n((T*)p.at[2])[at] = ",
                               options.is_test ? "" : "((const uint8*)p.at[1])[at] == 0 ? (T)0 : ",
                               "((const T*)p.at[0])[at] * ", scale, ";\n");
  const int grad = site.position("Out@GRAD"), mask = site.position("Mask");
  const int to = site.out_position("X@GRAD");
  return on_queue(pointwise(site.in("Out@GRAD").shape, {}, body, 3), [=](const KernelArgs& k) {
    return AddressList{k.in(grad).address(), k.in(mask).address(), k.out(to).address()};
  });
}

}  // namespace

void add_dropout(DeviceKernels& kernels) {
  add_to(kernels, "dropout", "generated", untyped(dropout_forward));
  add_to(kernels, "dropout_grad", "generated", untyped(dropout_backward));
}

}  // namespace trireme::cuda
