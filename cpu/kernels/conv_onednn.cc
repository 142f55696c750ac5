// Makes oneDNN's convolutions into phases of a kernel: pack the filter, run slices, add up.
#include "cpu/kernels/conv_onednn.h"

#include <algorithm>
#include <memory>

#include "core/flags.h"

namespace trireme {
namespace {

ConvSizes sizes_of(const ConvShape& shape) {
  ConvSizes sizes{.batch = shape.batch,
                  .groups = shape.groups,
                  .image_channels = shape.image_channels,
                  .map_channels = shape.map_channels,
                  .channel_last = shape.channel_last,
                  .image_block = shape.image_block,
                  .map_block = shape.map_block,
                  .winograd = std::get<bool>(get_flag("conv_winograd"))};
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& axis = shape.window[i + 1];
    sizes.axes[i] = {
        .image = axis.in,
        .map = axis.out,
        .size = axis.size,
        .stride = axis.stride,
        .dilation = axis.dilation,
        .pad_begin = axis.pad_begin,
        // As far as windows reach: what is left over behind the last one is not padding.
        .pad_end = (axis.out - 1) * axis.stride + axis.reach() - axis.in - axis.pad_begin};
  }
  return sizes;
}

// The library takes const and non-const operands alike; only the wanted one is written.
float* operand(const KernelArgs& k, int position, bool result) {
  return result ? k.out<float>(position) : const_cast<float*>(k.in<float>(position));
}

}  // namespace

bool add_conv_phases(const ConvShape& shape, ConvResult wanted, const ConvOperands& at,
                     BoundKernel& kernel, std::string* why_not) {
  const ConvBehind behind = at.bias < 0 || wanted != ConvResult::map ? ConvBehind::nothing
                            : at.sums.relu                           ? ConvBehind::bias_and_relu
                                                                     : ConvBehind::bias;
  const std::shared_ptr<OnednnConv> conv =
      OnednnConv::make(sizes_of(shape), wanted, why_not, behind);
  if (!conv) return false;
  const auto tensors = [at, wanted](const KernelArgs& k) {
    return OnednnConv::Tensors{.image = operand(k, at.image, wanted == ConvResult::image),
                               .map = operand(k, at.map, wanted == ConvResult::map),
                               .filter = operand(k, at.filter, wanted == ConvResult::filter),
                               .bias = at.bias < 0 ? nullptr : k.in<float>(at.bias)};
  };
  // Convolutions of one op share the scratch: what one has packed another writes over.
  if (conv->scratch() > 0) {
    kernel.packs = -1;
    for (BoundKernel& phase : kernel.then) phase.packs = -1;
  }
  kernel.scratch = std::max(kernel.scratch, conv->scratch());
  if (kernel.detail.empty()) {
    kernel.detail = conv->algorithm();
  } else if (kernel.detail != conv->algorithm()) {
    kernel.detail += std::string(" and ") + conv->algorithm();
  }
  if (behind != ConvBehind::nothing && conv->adds_bias(0)) kernel.detail += " with post-ops";
  if (conv->filter_pieces() > 0) kernel.packed += conv->scratch();
  if (const int pieces = conv->filter_pieces(); pieces > 0) {
    BoundKernel& phase = kernel.add(
        [conv, tensors, pieces](const KernelArgs& k) {
          const auto [begin, end] = k.range(pieces);
          for (int64_t i = begin; i < end; ++i) {
            conv->pack_filter(static_cast<int>(i), tensors(k), k.scratch);
          }
        },
        pieces);
    phase.packs = at.filter;
  }
  const int slices = conv->slices();
  kernel.add(
      [conv, tensors, slices, wanted, batch = shape.batch, sums = at.sums](const KernelArgs& k) {
        const auto [begin, end] = k.range(slices);
        const OnednnConv::Tensors given = tensors(k);
        for (int64_t i = begin; i < end; ++i) {
          conv->run_slice(static_cast<int>(i), given, k.scratch);
          if (!given.bias || conv->adds_bias(static_cast<int>(i))) continue;
          add_bias(sums, given.bias, wanted == ConvResult::map ? given.map : given.image,
                   batch * i / slices, batch * (i + 1) / slices);
        }
      },
      slices);
  if (const int pieces = conv->sum_pieces(); pieces > 0) {
    kernel.add(
        [conv, tensors, pieces](const KernelArgs& k) {
          const auto [begin, end] = k.range(pieces);
          for (int64_t i = begin; i < end; ++i) {
            conv->sum_filter(static_cast<int>(i), tensors(k), k.scratch);
          }
        },
        pieces);
  }
  return true;
}

bool add_inference_phases(const ConvShape& shape, const ConvOperands& at, BoundKernel& kernel,
                          std::string* why_not) {
  const OnednnConv::Finish finish{
      .bias = at.bias >= 0, .residual = at.residual >= 0, .relu = at.relu};
  const std::shared_ptr<OnednnConv> conv =
      OnednnConv::make_for_inference(sizes_of(shape), finish, why_not);
  if (!conv) return false;
  const auto tensors = [at](const KernelArgs& k) {
    return OnednnConv::Tensors{.image = operand(k, at.image, false),
                               .map = operand(k, at.map, true),
                               .filter = operand(k, at.filter, false),
                               .bias = at.bias < 0 ? nullptr : k.in<float>(at.bias),
                               .residual = at.residual < 0 ? nullptr : k.in<float>(at.residual)};
  };
  kernel.scratch = kernel.packed = conv->scratch();
  kernel.detail = std::string(conv->algorithm()) + " for inference";
  const auto each = [conv, tensors](int count, auto run) {
    return [conv, tensors, count, run](const KernelArgs& k) {
      const auto [begin, end] = k.range(count);
      for (int64_t i = begin; i < end; ++i) run(*conv, static_cast<int>(i), tensors(k), k.scratch);
    };
  };
  const int pieces = conv->filter_pieces(), slices = conv->slices();
  kernel.add(each(pieces, [](OnednnConv& c, int i, const OnednnConv::Tensors& t,
                             std::byte* scratch) { c.pack_filter(i, t, scratch); }),
             pieces);
  kernel.packs = at.filter;
  kernel.add(each(slices, [](OnednnConv& c, int i, const OnednnConv::Tensors& t,
                             std::byte* scratch) { c.run_slice(i, t, scratch); }),
             slices);
  return true;
}

}  // namespace trireme
