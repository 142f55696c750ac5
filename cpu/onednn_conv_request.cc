// Chooses layouts and implementations among those the library has.
#ifdef TRIREME_HAVE_ONEDNN

#include "cpu/onednn_conv_request.h"

namespace trireme::onednn {
namespace {

// Channels last where blocks of 16 would be filled up with zeros: 20 to 50 channels run 1.4 times
// as fast so. Few image channels have kernels of their own.
bool channels_innermost(const ConvSizes& s) {
  const bool ragged = s.image_channels % 16 != 0 || s.map_channels % 16 != 0;
  return s.groups == 1 && s.image_channels >= 16 && (ragged || s.channel_last);
}

// Channels last, the image's gradient is computed a vector of image channels at a time. Where
// fewer than 7 in 10 lanes are filled, a product over all taps at once is ahead.
bool wastes_lanes(const ConvSizes& s) {
  const int64_t lanes = (s.image_channels + 15) / 16 * 16;
  return channels_innermost(s) && 10 * s.image_channels < 7 * lanes &&
         s.axes[0].size * s.axes[1].size > 1;
}

// Goes on to the next implementation of the library while `skip` says so of its name; stays with
// the first where none is left but the reference loop.
template <class Desc, class Skip>
void choose_implementation(Desc& made, const Skip& skip) {
  Desc next = made;
  while (skip(std::string_view(next.impl_info_str()))) {
    if (!next.next_impl() || is_reference(next.impl_info_str())) return;
  }
  made = next;
}

using Forward = dnnl::convolution_forward::primitive_desc;

// Its newer kernels, for windows above 1 x 1 and channels last, lose up to 15% to the older.
void choose_forward(Forward& made) {
  choose_implementation(made, [](std::string_view name) { return name.starts_with("brgconv:"); });
}

// Bias and relu as the library's own post-ops, behind complete sums: the convolution's bias
// argument begins the sums and so rounds otherwise. Only its direct kernels are trusted with the
// bits: those on matrix products make -0 the relu of -0. All others leave a loop over the slice's
// map to the caller.
//
// That loop is cheap: the slice is still in the cache. The kernels look the bias up for every
// vector they write, which only many products a number hide, in blocks more of them than channels
// last. From these on both take the same time, to 0.7%. With fewer the loop is ahead: by 17% for 3
// channels to 64 in 3 x 3 windows, 4% for 1 x 1 windows over 64 channels, 2.5% for 3 x 3 over 32.
bool takes_post_ops(const ConvSizes& s, std::string_view implementation) {
  const int64_t products = s.image_channels * s.axes[0].size * s.axes[1].size;
  const int64_t enough = given_layout(s, s.map_block) == Tag::nhwc ? 192 : 2048;
  return products >= enough &&
         (implementation.starts_with("jit:") || implementation.starts_with("jit_1x1:"));
}

dnnl::primitive_attr post_ops(const ConvSizes& s, ConvBehind behind) {
  dnnl::post_ops ops;
  ops.append_binary(dnnl::algorithm::binary_add, bias_layout(s));
  if (behind == ConvBehind::bias_and_relu) {
    ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  }
  dnnl::primitive_attr attr = own_scratchpad();
  attr.set_post_ops(ops);
  return attr;
}

// Whether `b` is `a` with post-ops: the same kernel on the same layouts makes the same sums.
bool same_but_post_ops(const Forward& a, const Forward& b) {
  return std::string_view(a.impl_info_str()) == b.impl_info_str() && a.src_desc() == b.src_desc() &&
         a.dst_desc() == b.dst_desc() && a.weights_desc() == b.weights_desc();
}

LibraryConv library_conv(const Forward& made, bool adds_bias) {
  return {
      dnnl::convolution_forward(made), made.src_desc(),      made.dst_desc(), made.weights_desc(),
      made.scratchpad_desc(),          made.impl_info_str(), adds_bias};
}

}  // namespace

Tag given_layout(const ConvSizes& s, int64_t block) {
  if (block == 0) return s.channel_last ? Tag::nhwc : Tag::nchw;
  return block == 16 ? Tag::nChw16c : block == 8 ? Tag::nChw8c : Tag::nhwc;
}

Desc bias_layout(const ConvSizes& s) {
  return {{1, s.groups * s.map_channels, 1, 1}, memory::data_type::f32, Tag::nchw};
}

LibraryConv ask_library(const ConvSizes& s, const ConvRequest& request) {
  const ConvResult kind = request.kind;
  const int64_t images = request.images;
  const bool winograd = request.winograd, as_given = request.as_given;
  const auto f32 = memory::data_type::f32;
  const auto& [h, w] = s.axes;
  const Tag liked = channels_innermost(s) && !winograd ? Tag::nhwc : Tag::any;
  // Few image channels stay as they are: beside channels-last maps they are channels last, too.
  const bool maps_innermost =
      as_given && s.map_block != 0 && s.map_block == s.map_channels && s.map_channels % 16 != 0;
  const auto layout = [&](int64_t block) {
    if (block == 0 && maps_innermost) return Tag::nhwc;
    return as_given && block != 0 ? given_layout(s, block) : liked;
  };
  const Desc image({images, s.groups * s.image_channels, h.image, w.image}, f32,
                   layout(s.image_block));
  const Desc map({images, s.groups * s.map_channels, h.map, w.map}, f32, layout(s.map_block));
  const memory::dims sizes =
      s.groups == 1 ? memory::dims{s.map_channels, s.image_channels, h.size, w.size}
                    : memory::dims{s.groups, s.map_channels, s.image_channels, h.size, w.size};
  const Desc filter(sizes, f32, Tag::any);
  const memory::dims strides{h.stride, w.stride}, dilates{h.dilation - 1, w.dilation - 1},
      begins{h.pad_begin, w.pad_begin}, ends{h.pad_end, w.pad_end};
  const auto algorithm =
      winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
  const dnnl::primitive_attr attr = own_scratchpad();
  // What is asked for stays until an implementation is chosen: the library goes on from it.
  const dnnl::convolution_forward::desc asked(dnnl::prop_kind::forward_training, algorithm, image,
                                              filter, map, strides, dilates, begins, ends);
  Forward forward(asked, attr, engine());
  if (kind == ConvResult::map) {
    choose_forward(forward);
    const Desc given(map.dims(), f32, given_layout(s, s.map_block));
    if (request.behind != ConvBehind::nothing && forward.dst_desc() == given &&
        takes_post_ops(s, forward.impl_info_str())) {
      const dnnl::primitive_attr with = post_ops(s, request.behind);
      Forward finishing(asked, with, engine(), /*allow_empty=*/true);
      if (finishing) choose_forward(finishing);
      if (finishing && same_but_post_ops(forward, finishing)) return library_conv(finishing, true);
    }
    return library_conv(forward, false);
  }
  if (kind == ConvResult::image) {
    const dnnl::convolution_backward_data::desc asked_back(algorithm, image, filter, map, strides,
                                                           dilates, begins, ends);
    dnnl::convolution_backward_data::primitive_desc made(asked_back, attr, engine(), forward);
    if (wastes_lanes(s)) {
      choose_implementation(made,
                            [](std::string_view name) { return name.find("gemm") == name.npos; });
    }
    return {dnnl::convolution_backward_data(made),
            made.diff_src_desc(),
            made.diff_dst_desc(),
            made.weights_desc(),
            made.scratchpad_desc(),
            made.impl_info_str()};
  }
  const dnnl::convolution_backward_weights::primitive_desc made(
      {algorithm, image, filter, map, strides, dilates, begins, ends}, attr, engine(), forward);
  return {dnnl::convolution_backward_weights(made),
          made.src_desc(),
          made.diff_dst_desc(),
          made.diff_weights_desc(),
          made.scratchpad_desc(),
          made.impl_info_str()};
}

LibraryConv ask_for_inference(const dnnl::convolution_forward::desc& asked,
                              const dnnl::primitive_attr& attr) {
  Forward made(asked, attr, engine());
  choose_forward(made);
  const std::string_view name = made.impl_info_str();
  if (is_reference(name.data()) || name.find("gemm") != name.npos) {
    throw dnnl::error(dnnl_unimplemented, "no fast kernel");
  }
  return library_conv(made, true);
}

}  // namespace trireme::onednn

#endif
