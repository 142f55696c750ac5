// im2sequence: the windows of every image as a sequence of rows.
#include <algorithm>

#include "ops/recurrent/recurrent_rules.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

struct Windows {
  int64_t high, wide;  // how many, down and across
};

// Attributes, in the order of the original: paddings are up, left, down, right.
struct WindowForm {
  std::vector<int32_t> kernels, strides, paddings, out_stride;

  explicit WindowForm(const OpView& op)
      : kernels(op.attr<std::vector<int32_t>>("kernels")),
        strides(op.attr<std::vector<int32_t>>("strides")),
        paddings(op.attr<std::vector<int32_t>>("paddings")),
        out_stride(op.attr<std::vector<int32_t>>("out_stride")) {
    if (kernels.size() == 2 && strides.size() == 2 && paddings.size() == 4 &&
        out_stride.size() == 2 && std::min(kernels[0], kernels[1]) > 0 &&
        std::min(strides[0], strides[1]) > 0 && std::min(out_stride[0], out_stride[1]) > 0) {
      return;
    }
    throw op.error("kernels, strides and out_stride are pairs of positive numbers, paddings four")
        .fix("kernels=[h, w], strides=[h, w], paddings=[up, left, down, right]");
  }

  Windows of(int64_t height, int64_t width) const {
    return {(height + paddings[0] + paddings[2] - kernels[0]) / strides[0] + 1,
            (width + paddings[1] + paddings[3] - kernels[1]) / strides[1] + 1};
  }
  // Of an image whose real size, before earlier layers shrank it, is known.
  Windows of_real(int64_t height, int64_t width) const {
    return of((height + out_stride[0] - 1) / out_stride[0],
              (width + out_stride[1] - 1) / out_stride[1]);
  }
};

// One entry for every image. Real sizes count when there are several images, as in the original.
std::vector<Windows> windows(const OpView& op, const WindowForm& form, const Tensor* sizes) {
  const Shape& x = op.in("X").shape;
  std::vector<Windows> all;
  for (int64_t n = 0; n < x.at(0); ++n) {
    Windows one = form.of(x.at(2), x.at(3));
    if (sizes && x.at(0) > 1) {
      one = form.of_real(static_cast<int64_t>(element_as_double(*sizes, 2 * n)),
                         static_cast<int64_t>(element_as_double(*sizes, 2 * n + 1)));
    }
    if (one.high < 1 || one.wide < 1) {
      throw op
          .error(cat("image ", n, " of X ", x, " has no room for a window of ", form.kernels[0],
                     " x ", form.kernels[1]))
          .fix("use smaller windows or more padding");
    }
    all.push_back(one);
  }
  return all;
}

const Tensor* real_sizes(const OpView& op) {
  return op.has("Y") && op.in("Y").value ? &op.in("Y").value->tensor() : nullptr;
}

void im2sequence_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() != 4) {
    throw op.error(cat("X has shape ", x.shape)).fix("give X [batch, channels, height, width]");
  }
  if (op.has("Y") && !op.in("Y").shape.may_equal({x.shape[0], 2})) {
    throw op.error(cat("Y has shape ", op.in("Y").shape, " but X has ", x.shape[0], " images"))
        .fix("give Y the height and width of every image: [batch, 2]");
  }
  const WindowForm form(op);
  const bool known = x.shape.known() && (!op.has("Y") || real_sizes(op));
  Lod lod;
  Dim rows;
  if (known) {
    lod = {{0}};
    for (const Windows& one : windows(op, form, real_sizes(op))) {
      lod[0].push_back(lod[0].back() + one.high * one.wide);
    }
    rows = lod[0].back();
  }
  op.set_out("Out", x.dtype, {rows, x.shape[1] * Dim(int64_t{form.kernels[0]} * form.kernels[1])});
  set_lod(op, "Out", lod, 1);
}

// Calls visit(element of X, element of Out) for every element of a window that is not padding, and
// outside(element of Out) for the others.
template <class Visit, class Outside>
void each_element(const Shape& x, const WindowForm& form, const std::vector<Windows>& all,
                  const Visit& visit, const Outside& outside) {
  int64_t out = 0;
  for (int64_t n = 0; n < x.at(0); ++n) {
    const Windows& count = all[static_cast<size_t>(n)];
    for (int64_t window = 0; window < count.high * count.wide; ++window) {
      const int64_t top = window / count.wide * form.strides[0] - form.paddings[0];
      const int64_t left = window % count.wide * form.strides[1] - form.paddings[1];
      for (int64_t c = 0; c < x.at(1); ++c) {
        for (int64_t i = top; i < top + form.kernels[0]; ++i) {
          for (int64_t j = left; j < left + form.kernels[1]; ++j, ++out) {
            if (i < 0 || j < 0 || i >= x.at(2) || j >= x.at(3)) {
              outside(out);
            } else {
              visit(((n * x.at(1) + c) * x.at(2) + i) * x.at(3) + j, out);
            }
          }
        }
      }
    }
  }
}

template <class T>
BoundKernel im2sequence(const KernelSite& site) {
  const int x_at = site.position("X");
  return BoundKernel(
      [=, shape = site.in("X").shape, form = WindowForm(site),
       all = windows(site, WindowForm(site), real_sizes(site))](const KernelArgs& k) {
        const T* x = k.in<T>(x_at);
        T* out = k.out<T>(0);
        each_element(
            shape, form, all, [&](int64_t from, int64_t to) { out[to] = x[from]; },
            [&](int64_t to) { out[to] = 0; });
      });
}

template <class T>
BoundKernel im2sequence_grad(const KernelSite& site) {
  const int grad_at = site.position("Out@GRAD");
  return BoundKernel(
      [=, shape = site.in("X").shape, form = WindowForm(site),
       all = windows(site, WindowForm(site), real_sizes(site))](const KernelArgs& k) {
        const T* grad = k.in<T>(grad_at);
        T* x_grad = k.out<T>(0);
        std::fill_n(x_grad, shape.count(), T{0});
        each_element(
            shape, form, all, [&](int64_t to, int64_t from) { x_grad[to] += grad[from]; },
            [](int64_t) {});
      });
}

}  // namespace

void register_im2sequence(Registry& ops) {
  ops.op("im2sequence")
      .doc("Every window of an image as one row, row by row of the image; an image is a sequence")
      .in("X", "[batch, channels, height, width]")
      .in_optional("Y", "[batch, 2]: real height and width of every image")
      .out("Out", "[windows, channels * kernel height * kernel width]; LoD: images")
      .required_attr<std::vector<int32_t>>("kernels", "height and width of a window")
      .attr("strides", std::vector<int32_t>{1, 1}, "steps down and across")
      .attr("paddings", std::vector<int32_t>{0, 0, 0, 0}, "zeros around: up, left, down, right")
      .attr("out_stride", std::vector<int32_t>{1, 1}, "how much smaller X is than Y says")
      .shape(im2sequence_shape)
      .traits({.reads_values = {"Y"}})
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return im2sequence<T>(s); }))
      .grad({"X", "Y"})
      .no_grad({"Y"})
      .grad_kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return im2sequence_grad<T>(s); }))
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {
            draw.uniform({draw.size(1, 2), draw.size(1, 2), draw.size(3, 4), draw.size(3, 4)})};
        sample.attrs["kernels"] = std::vector<int32_t>{2, 3};
        sample.attrs["strides"] = std::vector<int32_t>{2, 1};
        sample.attrs["paddings"] = std::vector<int32_t>{1, 0, 0, 1};
        return sample;
      });
}

}  // namespace trireme
