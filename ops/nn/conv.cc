// Convolutions: conv2d, conv3d, depthwise_conv2d and the transposed ones.
#include "ops/nn/conv.h"

#include <algorithm>

#include "ir/schema.h"
#include "ops/nn/channel_blocks.h"
#include "ops/rules.h"

namespace trireme {
namespace {

std::vector<int64_t> spatial_of(const Shape& image, const ImageLayout& layout) {
  std::vector<int64_t> extents;
  for (int i = 0; i < layout.spatial; ++i) extents.push_back(image.at(layout.spatial_axis(i)));
  return extents;
}

// Filters are [channels, channels per group, spatial...] in every data format.
std::vector<int64_t> filter_sizes(const OpView& op, int spatial) {
  const Shape& filter = op.in("Filter").shape;
  if (filter.rank() != spatial + 2) {
    throw op
        .error(cat("Filter has ", filter.rank(), " dimensions ", filter, " but ", spatial + 2,
                   " are needed"))
        .fix(cat("give Filter two channel dimensions and ", spatial, " spatial ones"));
  }
  std::vector<int64_t> sizes;
  for (int i = 0; i < spatial; ++i) sizes.push_back(filter.at(2 + i));
  return sizes;
}

// What only the original's own rewriting passes write into programs. Ours have decided that
// parameters stay where they give it to an op.
bool adds_residual(const OpView& op) {
  return op.schema().find_input("ResidualData") && op.has("ResidualData");
}
void refuse_rewritten(const OpView& op) {
  const bool residual = adds_residual(op) && !op.decided().stays;
  const bool relu = op.schema().find_attribute("fuse_relu_before_depthwise_conv") &&
                    op.attr<bool>("fuse_relu_before_depthwise_conv");
  if (!residual && !relu) return;
  throw Error(ErrorKind::unimplemented,
              cat(residual ? "ResidualData is given" : "fuse_relu_before_depthwise_conv is set",
                  ", which stands for an op that was fused into this one"))
      .fix("use the program as it was before fusion; fusing is done here when it runs");
}

void check_bias(const OpView& op, Dim channels) {
  if (!op.schema().find_input("Bias") || !op.has("Bias")) return;
  const Dim given = op.in("Bias").shape.numel();
  if (given.may_equal(channels)) return;
  throw op.error(cat("Bias has ", given, " numbers but Output has ", channels, " channels"))
      .fix(cat("give Bias the shape [", channels, "]"));
}

void check_types(const OpView& op) {
  const DType input = op.in("Input").dtype, filter = op.in("Filter").dtype;
  if (input == filter) return;
  throw Error(ErrorKind::type_mismatch, cat("Input is ", name_of(input), " but Filter is ",
                                            name_of(filter), "; they must be equal"))
      .fix("cast one of them");
}

void check_groups(const OpView& op, std::string_view slot, Dim channels, int64_t groups) {
  if (!channels.known() || channels.value() % groups == 0) return;
  throw op.error(cat(slot, " has ", channels, " channels, which ", groups, " groups do not divide"))
      .fix("choose groups that divide the channels");
}

Conv conv_site(const OpView& op, int spatial) {
  check_types(op);
  refuse_rewritten(op);
  const ChannelBlocks blocks = op.decided().blocks;
  Conv conv{.layout = image_layout(op, "Input", spatial, "data_format", blocks.image)};
  const Shape& input = op.in("Input").shape;
  const Shape& filter = op.in("Filter").shape;
  const auto sizes = filter_sizes(op, spatial);
  const int64_t groups = op.attr<int>("groups");
  const Dim channels = conv.layout.channels(input);
  const Dim expected = filter[1] * Dim(groups);
  if (!channels.may_equal(expected)) {
    throw op
        .error(cat("Input has ", channels, " channels but Filter ", filter, " with ", groups,
                   " group(s) reads ", expected))
        .fix(cat("give Filter the shape [", filter[0], ", ", channels / Dim(groups),
                 ", ...], or check data_format and groups"));
  }
  check_groups(op, "Filter", filter[0], groups);
  check_bias(op, filter[0]);
  conv.shape = {.batch = input.at(0),
                .groups = groups,
                .image_channels = filter.at(1),
                .map_channels = filter.at(0) / groups,
                .window = window_over(op, spatial_of(input, conv.layout), sizes),
                .channel_last = conv.layout.channel_last,
                .image_block = blocks.image,
                .map_block = blocks.map};
  place_windows(op, conv.shape.window);
  ImageLayout out = conv.layout;
  out.block = blocks.map;
  conv.out = out.shape(input[0], filter[0], conv.shape.window);
  return conv;
}

// Transposed: Input is the map, Output the image. Several image sizes give one map size when the
// stride is above 1; output_size chooses among them.
Conv transpose_site(const OpView& op, int spatial) {
  check_types(op);
  Conv conv{.layout = image_layout(op, "Input", spatial, "data_format")};
  const Shape& input = op.in("Input").shape;
  const Shape& filter = op.in("Filter").shape;
  const auto sizes = filter_sizes(op, spatial);
  const int64_t groups = op.attr<int>("groups");
  const Dim channels = conv.layout.channels(input);
  if (!channels.may_equal(filter[0])) {
    throw op
        .error(cat("Input has ", channels, " channels but Filter ", filter, " reads ", filter[0]))
        .fix(cat("give Filter the shape [", channels, ", ", filter[1],
                 ", ...], or check data_format"));
  }
  check_groups(op, "Input", filter[0], groups);
  const Dim out_channels = filter[1] * Dim(groups);
  check_bias(op, out_channels);
  Window window = window_over(op, spatial_of(input, conv.layout), sizes);
  const auto wanted = op.attr<std::vector<int>>("output_size");
  const auto extra = op.attr<std::vector<int>>("output_padding");
  for (const auto* list : {&wanted, &extra}) {
    if (list->empty() || list->size() == static_cast<size_t>(spatial)) continue;
    throw op
        .error(cat(list == &wanted ? "output_size" : "output_padding", " has ", list->size(),
                   " numbers but there are ", spatial, " spatial dimensions"))
        .fix(cat("give ", spatial, " numbers, or none"));
  }
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    WindowAxis& axis = window[3 - static_cast<size_t>(spatial) + i];
    axis.out = axis.in;
    axis.in = -1;
    if (axis.out < 0 || axis.size < 0) continue;
    const int64_t least =
        (axis.out - 1) * axis.stride - axis.pad_begin - axis.pad_end + axis.reach();
    axis.in = least;
    if (!extra.empty()) axis.in += extra[i];
    if (!wanted.empty()) axis.in = wanted[i];
    if (axis.in < std::max<int64_t>(least, 1) || axis.in >= least + axis.stride) {
      throw op
          .error(cat(wanted.empty() ? "the output size" : "output_size", " of dimension ", i,
                     " is ", axis.in, " but must be from ", least, " to ", least + axis.stride - 1))
          .fix("change output_size, output_padding or the paddings");
    }
  }
  conv.shape = {.batch = input.at(0),
                .groups = groups,
                .image_channels = filter.at(1),
                .map_channels = filter.at(0) / groups,
                .window = window,
                .channel_last = conv.layout.channel_last};
  Window image = window;
  for (WindowAxis& axis : image) axis.out = axis.in;
  conv.out = conv.layout.shape(input[0], out_channels, image);
  return conv;
}

}  // namespace

Conv ConvKind::site(const OpView& op) const {
  return transposed ? transpose_site(op, spatial) : conv_site(op, spatial);
}

ChannelBias bias_of(const OpView& op, const Conv& conv, const ConvKind& kind) {
  const ConvShape& s = conv.shape;
  const int64_t channels = s.groups * (kind.transposed ? s.image_channels : s.map_channels);
  return {.batch = s.batch,
          .channels = channels,
          .pixels = kind.transposed ? in_pixels(s.window) : out_pixels(s.window),
          .block = s.channel_last ? channels : s.map_block,
          .relu = op.decided().relu && !adds_residual(op)};
}

namespace {

// What a pass has given to an op: it is added behind the bias, and relu comes behind that. It may
// stand where the result will, so it is put aside before the product.
template <class T>
class Residual {
 public:
  Residual(const KernelArgs& k, int at, int64_t size, bool relu) : relu_(relu) {
    if (!k.has_in(at)) return;
    const auto [first, last] = k.range(k.out(0).shape().at(0));
    to_ = k.out<T>(0) + first * size;
    own_.assign(k.in<T>(at) + first * size, k.in<T>(at) + last * size);
  }
  void add() const {
    for (size_t i = 0; i < own_.size(); ++i) {
      const T sum = to_[i] + own_[i];
      to_[i] = relu_ && sum < 0 ? T(0) : sum;
    }
  }

 private:
  bool relu_;
  T* to_ = nullptr;
  std::vector<T> own_;
};

// Images are independent, so parts take images whichever product is used. Copies are made at once.
int parts_of(const ConvShape& shape) {
  if (shape.image_block || shape.map_block) return 1;
  return static_cast<int>(std::clamp<int64_t>(shape.batch, 1, 64));
}

// The products know plain images only: those in blocks go through copies. For what oneDNN turns
// down, as an empty batch; memory is kept between calls.
template <class T>
class PlainImages {
 public:
  PlainImages(int64_t batch, const BlockedImage& image) : count_(batch), image_(image) {}
  const T* read(const T* given, std::vector<T>& copy) const {
    if (image_.block == 0) return given;
    T* plain = room(nullptr, copy);
    for (int64_t i = 0; i < blocks(); ++i) from_blocks(image_, given, plain, i);
    return plain;
  }
  T* room(T* given, std::vector<T>& copy) const {
    if (image_.block == 0) return given;
    copy.resize(static_cast<size_t>(count_ * image_.size()));
    return copy.data();
  }
  void put(const T* plain, T* given) const {
    for (int64_t i = 0; image_.block != 0 && i < blocks(); ++i) to_blocks(image_, plain, given, i);
  }

 private:
  int64_t blocks() const { return count_ * (image_.channels / image_.block); }
  int64_t count_;
  BlockedImage image_;
};

template <class T>
PlainImages<T> plain_images(const ConvShape& s) {
  return {s.batch, {s.groups * s.image_channels, in_pixels(s.window), s.image_block}};
}
template <class T>
PlainImages<T> plain_maps(const ConvShape& s) {
  return {s.batch, {s.groups * s.map_channels, out_pixels(s.window), s.map_block}};
}

template <class T>
BoundKernel forward(const KernelSite& site, const ConvKind& kind, Product<T> product) {
  const Conv conv = kind.site(site);
  const ChannelBias bias_shape = bias_of(site, conv, kind);
  const int bias_at = site.schema().find_input("Bias") ? site.position("Bias") : -1;
  const int residual_at = adds_residual(site) ? site.position("ResidualData") : -1;
  const bool relu = site.decided().relu;
  return BoundKernel(
      [=, shape = conv.shape](const KernelArgs& k) {
        const auto [first, last] = k.range(shape.batch);
        T* out = k.out<T>(0);
        const Residual<T> residual(k, residual_at, shape.map_size(), relu);
        if (kind.transposed) {
          conv_image(shape, product, k.in<T>(0), k.in<T>(1), out, first, last);
        } else {
          thread_local std::vector<T> image_copy, map_copy;
          T* map = plain_maps<T>(shape).room(out, map_copy);
          conv_map(shape, product, plain_images<T>(shape).read(k.in<T>(0), image_copy), k.in<T>(1),
                   map, first, last);
          plain_maps<T>(shape).put(map, out);
        }
        if (k.has_in(bias_at)) add_bias(bias_shape, k.in<T>(bias_at), out, first, last);
        residual.add();
      },
      parts_of(conv.shape));
}

// Input@GRAD is cut by images; what sums over the batch is the first part's.
template <class T>
BoundKernel backward(const KernelSite& site, const ConvKind& kind, Product<T> product) {
  const Conv conv = kind.site(site);
  const ChannelBias bias_shape = bias_of(site, conv, kind);
  const int input_at = site.position("Input"), filter_at = site.position("Filter"),
            grad_at = site.position("Output@GRAD");
  const int input_grad_at = site.out_position("Input@GRAD"),
            filter_grad_at = site.out_position("Filter@GRAD");
  const int bias_grad_at =
      site.schema().find_output("Bias@GRAD") ? site.out_position("Bias@GRAD") : -1;
  return BoundKernel(
      [=, shape = conv.shape](const KernelArgs& k) {
        thread_local std::vector<T> image_copy, map_copy;
        const PlainImages<T> images = plain_images<T>(shape);
        const T* grad = plain_maps<T>(shape).read(k.in<T>(grad_at), map_copy);
        if (k.has_out(input_grad_at)) {
          const auto [first, last] = k.range(shape.batch);
          T* input_grad = images.room(k.out<T>(input_grad_at), image_copy);
          if (kind.transposed) {
            conv_map(shape, product, grad, k.in<T>(filter_at), input_grad, first, last);
          } else {
            conv_image(shape, product, grad, k.in<T>(filter_at), input_grad, first, last);
          }
          images.put(input_grad, k.out<T>(input_grad_at));
        }
        if (k.part != 0) return;
        if (k.has_out(filter_grad_at)) {
          const T* input = images.read(k.in<T>(input_at), image_copy);
          conv_filter_grad(shape, product, kind.transposed ? grad : input,
                           kind.transposed ? input : grad, k.out<T>(filter_grad_at));
        }
        if (k.has_out(bias_grad_at)) bias_grad(bias_shape, grad, k.out<T>(bias_grad_at));
      },
      parts_of(conv.shape));
}

OpSchema& conv_row(OpSchema& row, ConvKind kind) {
  const auto run = [kind]<class T>(const KernelSite& site, Product<T> product) {
    return forward<T>(site, kind, product);
  };
  const auto run_grad = [kind]<class T>(const KernelSite& site, Product<T> product) {
    return backward<T>(site, kind, product);
  };
  const bool three = kind.spatial == 3;
  const auto spatial = static_cast<size_t>(kind.spatial);
  row.out("Output", "the images convolved, in the same data format")
      .attr("is_test", false, "has no effect")
      .attr("strides", std::vector<int>(spatial, 1), "steps of the window")
      .attr("paddings", std::vector<int>(spatial, 0),
            "zeros around the image: one number per dimension, or begin and end of each")
      .attr("padding_algorithm", "EXPLICIT", "SAME and VALID choose the paddings themselves")
      .one_of({"EXPLICIT", "SAME", "VALID"})
      .attr("groups", 1, "channels are cut into this many groups that do not see each other")
      .at_least(1)
      .attr("dilations", std::vector<int>(spatial, 1), "steps between the elements of a window")
      .attr("data_format", three ? "NCDHW" : "NCHW", "where the channels stand")
      .one_of(three ? std::vector<std::string>{"NCDHW", "NDHWC", "AnyLayout", "NCHW", "NHWC"}
                    : std::vector<std::string>{"NCHW", "NHWC", "AnyLayout"});
  if (kind.transposed) {
    row.attr("output_size", std::vector<int>{},
             "the spatial size of Output, when strides leave a choice")
        .attr("output_padding", std::vector<int>{},
              "added to the smallest possible size of Output");
  }
  row.shape([kind](OpView& op) {
    op.set_out("Output", op.in("Input").dtype, kind.site(op).out);
    if (!kind.transposed) op.share_lod("Input", "Output");
  });
  return row.kernel(with_blas(run), "blas")
      .kernel(with_reference(run))
      .grad_kernel(with_blas(run_grad), "blas")
      .grad_kernel(with_reference(run_grad))
      .grad_vjp(bilinear_gradient("Input", "Filter"));
}

OpSchema& conv2d_row(OpSchema& row) {
  row.in("Input", "images, in data_format")
      .in("Filter", "[output channels, input channels / groups, height, width]")
      .in_optional("Bias", "[output channels]: added to Output")
      .in_optional("ResidualData", "not taken: it stands for a fused addition")
      .attr("fuse_relu_before_depthwise_conv", false, "not taken: it stands for a fused relu");
  return conv_row(row, {.spatial = 2}).grad({"Input", "Filter", "Bias"}).no_grad({"ResidualData"});
}

OpSchema& conv2d_transpose_row(OpSchema& row) {
  row.in("Input", "images, in data_format")
      .in("Filter", "[input channels, output channels / groups, height, width]")
      .in_optional("Bias", "[output channels]: added to Output");
  return conv_row(row, {.spatial = 2, .transposed = true}).grad({"Input", "Filter", "Bias"});
}

OpSample sample_of(Draw& d, const Shape& input, const Shape& filter, Attrs attrs,
                   int64_t bias = 0) {
  OpSample made{.inputs = {{"Input", {d.uniform(input)}}, {"Filter", {d.uniform(filter)}}},
                .attrs = std::move(attrs)};
  if (bias > 0) made.inputs["Bias"] = {d.uniform({bias})};
  return made;
}

using Ints = std::vector<int>;

}  // namespace

void register_conv(Registry& ops) {
  OpSchema& conv2d = conv2d_row(ops.op("conv2d"));
  bilinear_second_gradient(ops, conv2d);
  conv2d.traits({.keeps_rows = true, .images = BlockedImages::makes, .layout_attr = "data_format"})
      .sample([](Draw& d) {
        const int64_t c = d.size(1, 3), m = d.size(1, 3);
        return sample_of(d, {2, c, 5, 4}, {m, c, 3, 2}, {{"paddings", Ints{1, 0}}}, m);
      })
      .sample([](Draw& d) {
        return sample_of(d, {1, 4, 6, 5}, {6, 2, 2, 2},
                         {{"groups", 2},
                          {"strides", Ints{2, 1}},
                          {"dilations", Ints{2, 1}},
                          {"paddings", Ints{0, 1, 2, 0}}});
      })
      .sample([](Draw& d) {
        return sample_of(d, {2, 5, 4, 2}, {4, 1, 3, 3},
                         {{"groups", 2},
                          {"padding_algorithm", std::string("SAME")},
                          {"strides", Ints{2, 2}},
                          {"data_format", std::string("NHWC")}},
                         4);
      })
      .sample([](Draw& d) {
        return sample_of(d, {2, 3, 4, 4}, {2, 3, 1, 1}, {});
      });
  conv2d_row(ops.op("depthwise_conv2d"))
      .traits({.keeps_rows = true, .images = BlockedImages::makes, .layout_attr = "data_format"})
      .sample([](Draw& d) {
        return sample_of(d, {2, 3, 5, 5}, {6, 1, 3, 3}, {{"groups", 3}, {"paddings", Ints{1, 1}}});
      });
  conv2d_transpose_row(ops.op("conv2d_transpose"))
      .sample([](Draw& d) {
        return sample_of(d, {2, 3, 3, 4}, {3, 2, 3, 2}, {{"paddings", Ints{1, 0}}}, 2);
      })
      .sample([](Draw& d) {
        return sample_of(d, {1, 4, 3, 3}, {4, 1, 3, 3},
                         {{"groups", 2}, {"strides", Ints{2, 2}}, {"output_size", Ints{8, 7}}});
      })
      .sample([](Draw& d) {
        return sample_of(d, {1, 3, 3, 2}, {2, 3, 2, 2},
                         {{"strides", Ints{2, 1}}, {"data_format", std::string("NHWC")}});
      });
  conv2d_transpose_row(ops.op("depthwise_conv2d_transpose")).sample([](Draw& d) {
    return sample_of(d, {2, 2, 3, 3}, {2, 1, 2, 2}, {{"groups", 2}, {"strides", Ints{2, 2}}});
  });
  OpSchema& conv3d = ops.op("conv3d")
                         .in("Input", "volumes, in data_format")
                         .in("Filter", "[output channels, input channels / groups, d, h, w]")
                         .in_optional("ResidualData", "not taken: it stands for a fused addition");
  conv_row(conv3d, {.spatial = 3})
      .grad({"Input", "Filter", "ResidualData"})
      .no_grad({"ResidualData"})
      .sample([](Draw& d) {
        return sample_of(d, {2, 2, 3, 4, 3}, {2, 1, 2, 2, 2},
                         {{"groups", 2}, {"paddings", Ints{1, 0, 1}}, {"strides", Ints{1, 2, 1}}});
      });
  bilinear_second_gradient(ops, conv3d);
  OpSchema& transposed = ops.op("conv3d_transpose")
                             .in("Input", "volumes, in data_format")
                             .in("Filter", "[input channels, output channels / groups, d, h, w]");
  conv_row(transposed, {.spatial = 3, .transposed = true})
      .grad({"Input", "Filter"})
      .sample([](Draw& d) {
        return sample_of(d, {1, 2, 2, 3, 2}, {2, 2, 2, 2, 2}, {{"strides", Ints{2, 1, 1}}});
      });
}

}  // namespace trireme
