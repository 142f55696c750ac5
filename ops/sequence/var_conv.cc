// var_conv_2d: a convolution over images of their own sizes, one behind the other.
#include <algorithm>

#include "cpu/gemm_kernel.h"
#include "ops/rules.h"
#include "ops/sequence/images_in_rows.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {

namespace {

// ImageWindows stand `stride` apart; the first is centered on the first element, and what lies
// outside an image counts as zeros.
struct ImageWindows {
  int64_t in_channels, out_channels, kernel_h, kernel_w, stride_h, stride_w;
  explicit ImageWindows(const OpView& op)
      : in_channels(op.attr<int32_t>("InputChannel")),
        out_channels(op.attr<int32_t>("OutputChannel")),
        kernel_h(op.attr<int32_t>("KernelH")),
        kernel_w(op.attr<int32_t>("KernelW")),
        stride_h(op.attr<int32_t>("StrideH")),
        stride_w(op.attr<int32_t>("StrideW")) {}
  int64_t size() const { return in_channels * kernel_h * kernel_w; }
  int64_t across(int64_t extent, int64_t stride) const {
    return extent == 0 ? 0 : (extent - 1) / stride + 1;
  }
  int64_t places(int64_t height, int64_t width) const {
    return across(height, stride_h) * across(width, stride_w);
  }
};

// Where the windows of each image begin, when each has one number.
std::vector<int64_t> place_offsets(const ImageWindows& windows, const ImagesInRows& images) {
  std::vector<int64_t> offsets{0};
  for (int64_t i = 0; i < images.count(); ++i) {
    const ImagesInRows::Image image = images.at(i);
    offsets.push_back(offsets.back() + windows.places(image.height, image.width));
  }
  return offsets;
}

void var_conv_shape(OpView& op) {
  const ImageWindows windows(op);
  const Shape& w = op.in("W").shape;
  const bool known = check_images(op, windows.in_channels);
  if (!w.may_equal({windows.out_channels, windows.size()})) {
    throw op.error(cat("W has shape ", w))
        .fix(cat("give W the shape [OutputChannel, InputChannel * KernelH * KernelW], here [",
                 windows.out_channels, ", ", windows.size(), "]"));
  }
  Dim places;
  Lod lod;
  if (known) {
    lod = {place_offsets(windows, ImagesInRows(op, windows.in_channels))};
    places = lod[0].back();
    for (int64_t& offset : lod[0]) offset *= windows.out_channels;
  }
  op.set_out("Out", op.in("X").dtype, {places * Dim(windows.out_channels), 1});
  set_lod(op, "Out", lod, 1);
  op.set_out("Col", op.in("X").dtype, {places * Dim(windows.size()), 1});
}

struct VarConv {
  ImageWindows windows;
  ImagesInRows images;
  std::vector<int64_t> places;

  explicit VarConv(const KernelSite& site)
      : windows(site), images(site, windows.in_channels), places(place_offsets(windows, images)) {}

  // f(element of the image, element of its windows) for every element of a window that lies inside;
  // windows stand as [channels * kernel_h * kernel_w, places].
  template <class F>
  void each_element(const ImagesInRows::Image& image, F f) const {
    const int64_t high = windows.across(image.height, windows.stride_h);
    const int64_t wide = windows.across(image.width, windows.stride_w);
    for (int64_t line = 0; line < windows.size(); ++line) {
      const int64_t channel = line / (windows.kernel_h * windows.kernel_w);
      const int64_t down = line / windows.kernel_w % windows.kernel_h - windows.kernel_h / 2;
      const int64_t right = line % windows.kernel_w - windows.kernel_w / 2;
      for (int64_t i = 0; i < high; ++i) {
        const int64_t y = i * windows.stride_h + down;
        if (y < 0 || y >= image.height) continue;
        for (int64_t j = 0; j < wide; ++j) {
          const int64_t x = j * windows.stride_w + right;
          if (x < 0 || x >= image.width) continue;
          f((channel * image.height + y) * image.width + x, (line * high + i) * wide + j);
        }
      }
    }
  }

  // f(image, first of its places, their number) for the images of this part that have places.
  template <class F>
  void each_image(const KernelArgs& k, F f) const {
    const auto [begin, end] = k.range(images.count());
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      if (places[at + 1] > places[at]) f(images.at(i), places[at], places[at + 1] - places[at]);
    }
  }
};

template <class T>
BoundKernel var_conv(const KernelSite& site, Product<T> product) {
  const VarConv at(site);
  const int x = site.position("X"), w = site.position("W");
  const int out = site.out_position("Out"), col = site.out_position("Col");
  const int64_t size = at.windows.size(), filters = at.windows.out_channels;
  return BoundKernel(
      [=](const KernelArgs& k) {
        at.each_image(k, [&](const ImagesInRows::Image& image, int64_t place, int64_t n) {
          const T* from = k.in<T>(x) + image.begin;
          T* unfolded = k.out<T>(col) + place * size;
          std::fill_n(unfolded, n * size, T{0});
          at.each_element(image,
                          [=](int64_t element, int64_t to) { unfolded[to] = from[element]; });
          product({.m = filters,
                   .n = n,
                   .k = size,
                   .a = k.in<T>(w),
                   .lda = size,
                   .b = unfolded,
                   .ldb = n,
                   .c = k.out<T>(out) + place * filters,
                   .ldc = n});
        });
      },
      at.images.parts());
}

// Of one image: dCol = W^T dOut, which goes back to the elements; dW is the sum of dOut Col^T.
template <class T>
BoundKernel var_conv_grad(const KernelSite& site, Product<T> product) {
  const VarConv at(site);
  const int w = site.position("W"), col = site.position("Col"), grad = site.position("Out@GRAD");
  const int dx = site.out_position("X@GRAD"), dw = site.out_position("W@GRAD");
  const int64_t size = at.windows.size(), filters = at.windows.out_channels;
  BoundKernel kernel;
  if (dx >= 0) {
    kernel.scratch = static_cast<size_t>(at.places.back() * size) * sizeof(T);
    kernel.add(
        [=](const KernelArgs& k) {
          at.each_image(k, [&](const ImagesInRows::Image& image, int64_t place, int64_t n) {
            T* unfolded = reinterpret_cast<T*>(k.scratch) + place * size;
            product({.m = size,
                     .n = n,
                     .k = filters,
                     .a = k.in<T>(w),
                     .lda = size,
                     .trans_a = true,
                     .b = k.in<T>(grad) + place * filters,
                     .ldb = n,
                     .c = unfolded,
                     .ldc = n});
            T* to = k.out<T>(dx) + image.begin;
            std::fill_n(to, at.windows.in_channels * image.height * image.width, T{0});
            at.each_element(image,
                            [=](int64_t element, int64_t from) { to[element] += unfolded[from]; });
          });
        },
        at.images.parts());
  }
  if (dw < 0) return kernel;
  kernel.add(
      [=](const KernelArgs& k) {
        std::fill_n(k.out<T>(dw), filters * size, T{0});
        at.each_image(k, [&](const ImagesInRows::Image&, int64_t place, int64_t n) {
          product({.m = filters,
                   .n = size,
                   .k = n,
                   .a = k.in<T>(grad) + place * filters,
                   .lda = n,
                   .b = k.in<T>(col) + place * size,
                   .ldb = n,
                   .trans_b = true,
                   .c = k.out<T>(dw),
                   .ldc = size,
                   .beta = T{1}});
        });
      },
      1);
  return kernel;
}

OpSample var_conv_sample(Draw& draw) {
  const int64_t channels = draw.size(1, 2), filters = draw.size(1, 3);
  const int64_t high = draw.size(1, 4), wide = draw.size(1, 3);
  OpSample sample = draw_images(draw, channels, false);
  sample.inputs["W"] = {draw.uniform({filters, channels * high * wide})};
  const auto set = [&](const char* name, int64_t value) {
    sample.attrs[name] = static_cast<int32_t>(value);
  };
  set("InputChannel", channels);
  set("OutputChannel", filters);
  set("KernelH", high);
  set("KernelW", wide);
  set("StrideH", draw.size(1, 2));
  set("StrideW", draw.size(1, 3));
  return sample;
}

}  // namespace

void register_var_conv(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return var_conv<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return var_conv_grad<T>(site, product);
  };
  OpSchema& row =
      ops.op("var_conv_2d")
          .doc("A convolution over images that have a size each; zeros stand around them")
          .in("X", "[elements, 1] in sequences: images of InputChannel channels")
          .in("ROW", "its sequences have an image's height each")
          .in("COLUMN", "its sequences have an image's width each")
          .in("W", "[OutputChannel, InputChannel * KernelH * KernelW]")
          .out("Out", "[elements, 1] in sequences: an image of OutputChannel channels each")
          .out_intermediate("Col", "[elements, 1]: the windows");
  for (const char* name :
       {"InputChannel", "OutputChannel", "StrideH", "StrideW", "KernelH", "KernelW"}) {
    row.required_attr<int32_t>(name, "channels, steps between windows, or a window's extent")
        .at_least(1);
  }
  row.shape(var_conv_shape)
      .kernel(with_onednn(forward), "onednn")
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad({"X", "ROW", "COLUMN", "W", "Col", "Out"})  // the original looks at Out, too
      .no_grad({"ROW", "COLUMN"})
      .grad_kernel(with_onednn(backward), "onednn")
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample(var_conv_sample);
}

}  // namespace trireme
