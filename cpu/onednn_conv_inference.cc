// Convolutions of programs for inference on oneDNN: a single image is cut by channels of the map,
// and bias, residual and relu are the library's own.
#include "core/error.h"
#include "cpu/onednn.h"

#ifdef TRIREME_HAVE_ONEDNN

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/onednn_conv_request.h"

namespace trireme {
namespace {

using namespace onednn;

constexpr size_t kReorderScratch = 2;  // operand of a reorder: Winograd's filters need it
constexpr int64_t kBlock = 16;         // channels that stand side by side

// Channels of the map in blocks are contiguous, as are their rows of the filter: a convolution over
// some of them is one of the library's own. Depthwise, the image's channels go with them.
struct Cut {
  int64_t batch_slices = 1, channel_slices = 1;
  int64_t slices() const { return batch_slices * channel_slices; }
};

int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

// By sizes alone. Many images are cut by the batch; of few, each by channels. Winograd's algorithm
// transforms the image once for each slice of channels, so there are fewer of them.
Cut cut_of(const ConvSizes& s, bool winograd) {
  constexpr int64_t kMost = 8, kFew = 4;
  if (s.batch >= kFew) return {power_of_two(std::min(s.batch, kMost)), 1};
  const int64_t channels = s.groups * s.map_channels;
  const int64_t narrowest = winograd ? 128 : 2 * kBlock;
  const int64_t most = winograd && channels < 512 ? 2 : kFew;
  const int64_t wanted = std::clamp<int64_t>(channels / narrowest, winograd ? 2 : 1, most);
  return {s.batch, power_of_two(wanted)};
}

class InferenceConv : public OnednnConv {
 public:
  // Channels of the map that a slice computes, and their filter.
  struct Range {
    int64_t first = 0, count = 0;
    Call pack;
    size_t pack_scratch = 0;
    size_t packed = 0;  // where in the scratch
  };
  struct Slice {
    int64_t first_image = 0, images = 0;
    size_t range = 0;
    Call call;  // image, map, filter, scratchpad, bias
    size_t scratchpad = 0;
  };

  InferenceConv(const ConvSizes& sizes, const Finish& finish, bool winograd)
      : s_(sizes), finish_(finish), winograd_(winograd) {
    const Cut cut = cut_of(sizes, winograd);
    const int64_t channels = sizes.groups * sizes.map_channels, blocks = channels / kBlock;
    size_t packed = 0;
    for (int64_t c = 0; c < cut.channel_slices; ++c) {
      Range range;
      range.first = blocks * c / cut.channel_slices * kBlock;
      range.count = blocks * (c + 1) / cut.channel_slices * kBlock - range.first;
      Desc filter;
      for (int64_t b = 0; b < cut.batch_slices; ++b) {
        Slice slice;
        slice.first_image = sizes.batch * b / cut.batch_slices;
        slice.images = sizes.batch * (b + 1) / cut.batch_slices - slice.first_image;
        slice.range = static_cast<size_t>(c);
        const LibraryConv made = ask(slice.images, range.count);
        if (b > 0 && made.filter != filter) throw dnnl::error(dnnl_unimplemented, "filters differ");
        filter = made.filter;
        std::vector<std::pair<int, Desc>> operands{{DNNL_ARG_SRC, made.image},
                                                   {DNNL_ARG_DST, made.map},
                                                   {DNNL_ARG_WEIGHTS, made.filter},
                                                   {DNNL_ARG_SCRATCHPAD, made.scratchpad}};
        if (finish.bias) operands.emplace_back(DNNL_ARG_BIAS, bias_desc(range.count));
        slice.call = Call(made.primitive, operands);
        slice.scratchpad = made.scratchpad.get_size();
        slices_.push_back(std::move(slice));
      }
      const Recipe pack = reorder_recipe(plain_filter(range.count), filter);
      range.pack = pack.call();
      range.pack_scratch = pack.operands[kReorderScratch].second.get_size();
      range.packed = packed;
      packed += aligned(filter.get_size());
      ranges_.push_back(std::move(range));
    }
    packed_ = packed;
  }

  const char* algorithm() const override { return winograd_ ? "winograd" : "direct"; }
  size_t scratch() const override { return packed_; }
  int filter_pieces() const override { return static_cast<int>(ranges_.size()); }
  int slices() const override { return static_cast<int>(slices_.size()); }
  int sum_pieces() const override { return 0; }
  bool adds_bias(int) const override { return true; }
  void sum_filter(int, const Tensors&, std::byte*) override {}

  void pack_filter(int piece, const Tensors& tensors, std::byte* scratch) override {
    const OneThread one;
    Range& range = ranges_[static_cast<size_t>(piece)];
    const int64_t row = s_.image_channels * s_.axes[0].size * s_.axes[1].size;
    range.pack.set(kFrom, tensors.filter + range.first * row);
    range.pack.set(kTo, scratch + range.packed);
    range.pack.set(kReorderScratch, thread_scratch(range.pack_scratch));
    range.pack.run();
  }

  void run_slice(int index, const Tensors& tensors, std::byte* scratch) override {
    const OneThread one;
    Slice& slice = slices_[static_cast<size_t>(index)];
    const Range& range = ranges_[slice.range];
    const auto& [h, w] = s_.axes;
    const int64_t image_pixels = h.image * w.image, map_pixels = h.map * w.map;
    const int64_t own_channels = depthwise() ? range.first : 0;
    const float* image =
        tensors.image +
        (slice.first_image * s_.groups * s_.image_channels + own_channels) * image_pixels;
    const int64_t from =
        (slice.first_image * s_.groups * s_.map_channels + range.first) * map_pixels;
    float* map = tensors.map + from;
    if (finish_.residual && tensors.residual != tensors.map) {
      std::memcpy(map, tensors.residual + from,
                  static_cast<size_t>(slice.images * range.count * map_pixels) * sizeof(float));
    }
    slice.call.set(0, image);
    slice.call.set(1, map);
    slice.call.set(2, scratch + range.packed);
    slice.call.set(3, thread_scratch(slice.scratchpad));
    if (finish_.bias) slice.call.set(4, tensors.bias + range.first);
    slice.call.run();
  }

 private:
  bool depthwise() const { return s_.groups > 1; }

  static Desc bias_desc(int64_t channels) { return {{channels}, memory::data_type::f32, Tag::x}; }
  memory::dims filter_dims(int64_t channels) const {
    const int64_t h = s_.axes[0].size, w = s_.axes[1].size;
    if (depthwise()) return {channels, 1, 1, h, w};
    return {channels, s_.image_channels, h, w};
  }
  Desc plain_filter(int64_t channels) const {
    return {filter_dims(channels), memory::data_type::f32, depthwise() ? Tag::goihw : Tag::oihw};
  }

  LibraryConv ask(int64_t images, int64_t channels) const {
    const auto f32 = memory::data_type::f32;
    const auto& [h, w] = s_.axes;
    const Desc image({images, depthwise() ? channels : s_.image_channels, h.image, w.image}, f32,
                     given_layout(s_, s_.image_block));
    const Desc map({images, channels, h.map, w.map}, f32, given_layout(s_, s_.map_block));
    dnnl::post_ops ops;
    if (finish_.residual) ops.append_sum(1);
    if (finish_.relu) ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attr = own_scratchpad();
    attr.set_post_ops(ops);
    const dnnl::convolution_forward::desc asked(
        dnnl::prop_kind::forward_inference,
        winograd_ ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct,
        image, Desc(filter_dims(channels), f32, Tag::any),
        finish_.bias ? bias_desc(channels) : Desc(), map, {h.stride, w.stride},
        {h.dilation - 1, w.dilation - 1}, {h.pad_begin, w.pad_begin}, {h.pad_end, w.pad_end});
    return ask_for_inference(asked, attr);
  }

  ConvSizes s_;
  Finish finish_;
  bool winograd_;
  std::vector<Range> ranges_;
  std::vector<Slice> slices_;
  size_t packed_ = 0;
};

}  // namespace

std::unique_ptr<OnednnConv> OnednnConv::make_for_inference(const ConvSizes& s, const Finish& finish,
                                                           std::string* why_not) {
  const auto refuse = [&](const char* why) {
    if (why_not) *why_not = why;
    return nullptr;
  };
  const bool depthwise = s.groups > 1;
  if (s.batch == 0) return refuse("the batch is empty");
  if (s.map_block != kBlock || s.groups * s.map_channels % kBlock != 0 ||
      (s.image_block != kBlock && (s.image_block != 0 || depthwise || s.channel_last))) {
    return refuse("the map's channels do not stand in blocks of 16");
  }
  if (depthwise && (s.image_channels != 1 || s.map_channels != 1)) {
    return refuse("groups have several channels");
  }
  const OneThread one;
  for (const bool winograd : {true, false}) {
    if (winograd && !takes_winograd_for_inference(s)) continue;
    try {
      return std::make_unique<InferenceConv>(s, finish, winograd);
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw InternalError(std::string("oneDNN: ") + e.what());
    }
  }
  return refuse("oneDNN has no fast kernel for these sizes");
}

}  // namespace trireme

#else

namespace trireme {

std::unique_ptr<OnednnConv> OnednnConv::make_for_inference(const ConvSizes&, const Finish&,
                                                           std::string*) {
  throw InternalError("a convolution on oneDNN was chosen, and oneDNN is not built in");
}

}  // namespace trireme

#endif
