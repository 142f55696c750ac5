// Convolutions and their gradients: cuDNN's where it takes them, else CUDA text of our own.
#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/kernels/conv_text.h"
#include "cuda/kernels/cudnn_conv.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {
namespace {

// One of the three products of image, filter and map, however it is computed. Operands are `a` and
// `b`, in the order of conv_text.h.
struct ConvStep {
  std::function<void(const KernelArgs&, void* to, const void* a, const void* b)> run;
  size_t scratch = 0;
};

ConvStep by_text(Launch what) {
  return {
      .run = [what = std::move(what)](const KernelArgs& k, void* to, const void* a, const void* b) {
        launch(what, AddressList{to, a, b}, *k.queue);
      }};
}

// Where channels stand last, cuDNN wants a filter's last as well: [maps, channels, taps] goes to
// [maps, taps, channels] and back. One of one tap stands as it is.
struct FilterTurn {
  Launch there, back;
  size_t bytes = 0;  // of the turned filter, before whatever else is scratch

  FilterTurn(const ConvShape& shape, DType dtype) {
    const int64_t maps = shape.groups * shape.map_channels, channels = shape.image_channels;
    const int64_t reads = taps(shape.window);
    if (reads == 1 || channels == 1) return;
    constexpr size_t kUnit = 256;
    bytes =
        (static_cast<size_t>(maps * channels * reads) * size_of(dtype) + kUnit - 1) / kUnit * kUnit;
    const std::string type = bits_text(dtype);
    const std::string copy =
        cat("((", type, "*)p.at[0])[at] = ((const ", type, "*)p.at[1])[o0];\n");
    Strides turned{}, plain{};
    turned = {channels * reads, 1, reads};
    plain = {channels * reads, 1, channels};
    there = pointwise(Shape{maps, reads, channels}, {turned}, copy, 2);
    back = pointwise(Shape{maps, channels, reads}, {plain}, copy, 2);
  }
};

ConvStep with_turned_filter(ConvStep step, ConvProduct product, FilterTurn turn) {
  if (turn.bytes == 0) return step;
  const size_t scratch = turn.bytes + step.scratch;
  return {.run =
              [run = std::move(step.run), product, turn = std::move(turn)](
                  const KernelArgs& k, void* to, const void* a, const void* b) {
                KernelArgs rest = k;
                rest.scratch = k.scratch + turn.bytes;
                void* const own = k.scratch;
                if (product == ConvProduct::filter) {
                  run(rest, own, a, b);
                  launch(turn.back, AddressList{to, own}, *k.queue);
                } else {
                  launch(turn.there, AddressList{own, b}, *k.queue);
                  run(rest, to, a, own);
                }
              },
          .scratch = scratch};
}

std::optional<ConvStep> conv_step(ConvProduct product, ConvShape shape, DType dtype, bool cudnn,
                                  std::string* why_not) {
  if (shape.image_block != 0) {  // blocks of all channels are channels last
    shape.channel_last = true;
    shape.image_block = shape.map_block = 0;
  }
  const bool half = dtype == DType::float16 || dtype == DType::bfloat16;
  if (!is_floating(dtype) || (half && !cudnn)) {  // our own adds up in the type itself
    if (why_not) *why_not = cat("no convolution of ", name_of(dtype));
    return std::nullopt;
  }
  if (!cudnn) {
    switch (product) {
      case ConvProduct::map:
        return by_text(conv_map_text(shape, dtype));
      case ConvProduct::image:
        return by_text(conv_image_text(shape, dtype));
      case ConvProduct::filter:
        return by_text(conv_filter_text(shape, dtype));
    }
  }
  const std::shared_ptr<const CudnnConv> conv = cudnn_conv(product, shape, dtype, why_not);
  if (!conv) return std::nullopt;
  ConvStep step{.run = [conv](const KernelArgs& k, void* to, const void* a,
                              const void* b) { conv->run(k, to, a, b); },
                .scratch = conv->scratch()};
  if (!shape.channel_last) return step;
  return with_turned_filter(std::move(step), product, FilterTurn(shape, dtype));
}

// Element `at` of a result plus its channel's number, and relu behind that.
Launch bias_launch(const ChannelBias& bias, DType dtype) {
  const int64_t inner = bias.block ? 1 : bias.pixels;
  std::string body =
      cat("typedef ", type_text(dtype), " S; typedef ", number_type(dtype),
          " T; T v = (T)((S*)p.at[0])[at] + (T)((const S*)p.at[1])[at / d.v[1] % d.v[2]];\n");
  if (bias.relu) body += "v = v > 0 ? v : (T)0;\n";
  return pointwise(Shape{bias.batch * bias.channels * bias.pixels}, {},
                   body + "((S*)p.at[0])[at] = (S)v;\n", 2, {inner, bias.channels});
}

Launch bias_grad_launch(const ChannelBias& bias, DType dtype) {
  const std::string type = type_text(dtype);
  const Fold fold{
      .acc = "double",
      .start = "0",
      .fold = "acc + (double)x",
      .combine = "acc + other",
      .load = cat("const ", number_type(dtype), " x = ((const ", type, "*)p.at[1])[e];\n"),
      .stored = cat("((", type, "*)p.at[0])[at] = (", type, ")acc;\n")};
  if (bias.block) return folding(Shape{bias.batch * bias.pixels, bias.channels}, {0}, fold, 2);
  return folding(Shape{bias.batch, bias.channels, bias.pixels}, {0, 2}, fold, 2);
}

int slot_or_none(const KernelSite& site, const char* slot) {
  return site.schema().find_input(slot) ? site.position(slot) : -1;
}

std::optional<BoundKernel> conv_kernel(const KernelSite& site, const ConvKind& kind, bool cudnn,
                                       std::string* why_not) {
  const Conv conv = kind.site(site);
  const DType dtype = site.in("Input").dtype;
  const auto step = conv_step(kind.transposed ? ConvProduct::image : ConvProduct::map, conv.shape,
                              dtype, cudnn, why_not);
  if (!step) return std::nullopt;
  const int bias_at = slot_or_none(site, "Bias");
  const ChannelBias bias = bias_of(site, conv, kind);
  const bool has_bias = bias_at >= 0 && site.has("Bias");
  const Launch adding = has_bias ? bias_launch(bias, dtype) : Launch{};
  BoundKernel made = on_queue([=, step = *step](const KernelArgs& k) {
    void* out = k.out(0).address();
    step.run(k, out, k.in(0).address(), k.in(1).address());
    if (has_bias) launch(adding, AddressList{out, k.in(bias_at).address()}, *k.queue);
  });
  made.scratch = step->scratch;
  return made;
}

std::optional<BoundKernel> conv_grad_kernel(const KernelSite& site, const ConvKind& kind,
                                            bool cudnn, std::string* why_not) {
  const Conv conv = kind.site(site);
  const DType dtype = site.in("Input").dtype;
  const int input_at = site.position("Input"), filter_at = site.position("Filter"),
            grad_at = site.position("Output@GRAD");
  const int input_grad_at = site.out_position("Input@GRAD"),
            filter_grad_at = site.out_position("Filter@GRAD");
  const bool has_bias = site.schema().find_output("Bias@GRAD") && site.wants("Bias@GRAD");
  const int bias_grad_at = has_bias ? site.out_position("Bias@GRAD") : -1;
  std::optional<ConvStep> of_input, of_filter;
  if (site.wants("Input@GRAD")) {
    of_input = conv_step(kind.transposed ? ConvProduct::map : ConvProduct::image, conv.shape, dtype,
                         cudnn, why_not);
    if (!of_input) return std::nullopt;
  }
  if (site.wants("Filter@GRAD")) {
    of_filter = conv_step(ConvProduct::filter, conv.shape, dtype, cudnn, why_not);
    if (!of_filter) return std::nullopt;
  }
  const Launch sums = has_bias ? bias_grad_launch(bias_of(site, conv, kind), dtype) : Launch{};
  BoundKernel made = on_queue([=, turned = kind.transposed](const KernelArgs& k) {
    const void* input = k.in(input_at).address();
    const void* grad = k.in(grad_at).address();
    if (of_input) {
      of_input->run(k, k.out(input_grad_at).address(), grad, k.in(filter_at).address());
    }
    if (of_filter) {
      of_filter->run(k, k.out(filter_grad_at).address(), turned ? grad : input,
                     turned ? input : grad);
    }
    if (has_bias) launch(sums, AddressList{k.out(bias_grad_at).address(), grad}, *k.queue);
  });
  made.scratch =
      std::max(of_input ? of_input->scratch : 0, of_filter ? of_filter->scratch : size_t{0});
  return made;
}

}  // namespace

void add_convolution(DeviceKernels& kernels) {
  const std::pair<const char*, ConvKind> rows[] = {
      {"conv2d", {.spatial = 2}},
      {"depthwise_conv2d", {.spatial = 2}},
      {"conv2d_transpose", {.spatial = 2, .transposed = true}},
      {"depthwise_conv2d_transpose", {.spatial = 2, .transposed = true}},
      {"conv3d", {.spatial = 3}},
      {"conv3d_transpose", {.spatial = 3, .transposed = true}}};
  for (const auto& row : rows) {
    const auto& [type, its_kind] = row;
    const auto kind = its_kind;
    for (const bool cudnn : {true, false}) {
      const char* name = cudnn ? "cudnn" : "generated";
      add_to(
          kernels, type, name,
          [kind, cudnn](const KernelSite& site, std::string* why_not) {
            return conv_kernel(site, kind, cudnn, why_not);
          },
          Halves::taken);
      add_to(
          kernels, cat(type, "_grad"), name,
          [kind, cudnn](const KernelSite& site, std::string* why_not) {
            return conv_grad_kernel(site, kind, cudnn, why_not);
          },
          Halves::taken);
    }
  }
}

}  // namespace trireme::cuda
