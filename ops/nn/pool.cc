// Pooling: pool2d, pool3d, max_pool2d_with_index and max_pool3d_with_index.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/text.h"
#include "ir/schema.h"
#include "ops/nn/pool.h"
#include "ops/rules.h"

namespace trireme {
namespace {

std::vector<int64_t> window_sizes(const OpView& op, int spatial, bool from_image,
                                  const std::vector<int64_t>& extents) {
  if (from_image) return extents;
  const auto given = op.attr<std::vector<int>>("ksize");
  if (given.size() != static_cast<size_t>(spatial)) {
    throw op
        .error(cat("ksize has ", given.size(), " numbers [", join(given), "] but there are ",
                   spatial, " spatial dimensions"))
        .fix(cat("give ksize ", spatial, " numbers"));
  }
  for (const int size : given) {
    if (size < 1) {
      throw op.error(cat("ksize is [", join(given), "]"))
          .fix("give sizes from 1 up, or set global_pooling");
    }
  }
  return {given.begin(), given.end()};
}

}  // namespace

Pool pool_site(const OpView& op, int spatial) {
  const bool with_index = op.schema().find_attribute("pooling_type") == nullptr;
  Pool pool;
  pool.layout = with_index
                    ? ImageLayout{.spatial = spatial}
                    : image_layout(op, "X", spatial, "data_format", op.decided().blocks.image);
  const Shape& x = op.in("X").shape;
  if (with_index && x.rank() != spatial + 2) {
    throw op.error(cat("X has ", x.rank(), " dimensions ", x, " but ", spatial + 2, " are needed"))
        .fix(cat("reshape X to ", spatial + 2, " dimensions"));
  }
  std::vector<int64_t> extents;
  for (int i = 0; i < spatial; ++i) extents.push_back(x.at(pool.layout.spatial_axis(i)));
  const bool global = op.attr<bool>("global_pooling");
  pool.adaptive = op.attr<bool>("adaptive") && !global;
  pool.exclusive = !with_index && op.attr<bool>("exclusive");
  const auto sizes = window_sizes(op, spatial, global, extents);
  pool.window = window_over(op, extents, sizes);
  if (global || pool.adaptive) {
    for (WindowAxis& axis : pool.window) axis.pad_begin = axis.pad_end = 0;
  }
  if (pool.adaptive) {
    for (size_t i = 0; i < sizes.size(); ++i) pool.window[3 - sizes.size() + i].out = sizes[i];
  } else {
    for (const WindowAxis& axis : pool.window) {
      if (std::max(axis.pad_begin, axis.pad_end) >= axis.size && axis.size > 0) {
        throw op
            .error(cat("paddings of ", axis.pad_begin, " and ", axis.pad_end, " leave windows of ",
                       axis.size, " with nothing but padding"))
            .fix("pad less than the window's size");
      }
    }
    place_windows(op, pool.window, !with_index && op.attr<bool>("ceil_mode"));
    if (global) {
      for (WindowAxis& axis : pool.window) axis.out = 1;
    }
  }
  const Dim channels = pool.layout.channels(x);
  pool.batch = x.at(0);
  pool.channels = channels.value();
  pool.out = pool.layout.shape(x[0], channels, pool.window);
  return pool;
}

namespace {

template <class T>
BoundKernel pool_forward(const KernelSite& site, int spatial) {
  const Pool pool = pool_site(site, spatial);
  const bool max = site.attr<std::string>("pooling_type") == "max";
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(pool.planes());
        const int64_t step = pool.step();
        for (int64_t plane = begin; plane < end; ++plane) {
          const T* x = k.in<T>(0) + pool.first(plane, in_pixels(pool.window));
          T* out = k.out<T>(0) + pool.first(plane, out_pixels(pool.window));
          each_window(
              pool, [&](int64_t at, const WindowSpan& d, const WindowSpan& h, const WindowSpan& w) {
                T result = max ? std::numeric_limits<T>::lowest() : T(0);
                each_pixel(pool, d, h, w, [&](int64_t pixel) {
                  const T value = x[pixel * step];
                  if (!max) {
                    result += value;
                  } else if (larger(value, result)) {
                    result = value;
                  }
                });
                out[at * step] = max ? result : result * weight<T>(pool, d, h, w);
              });
        }
      },
      pool.parts());
}

// A maximum gives its gradient to the first pixel that has it; an average spreads it.
template <class T>
BoundKernel pool_backward(const KernelSite& site, int spatial) {
  const Pool pool = pool_site(site, spatial);
  const bool max = site.attr<std::string>("pooling_type") == "max";
  const int x_at = site.position("X"), out_at = site.position("Out"),
            grad_at = site.position("Out@GRAD"), x_grad_at = site.out_position("X@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(pool.planes());
        const int64_t step = pool.step(), pixels = in_pixels(pool.window);
        for (int64_t plane = begin; plane < end; ++plane) {
          const T* x = k.in<T>(x_at) + pool.first(plane, pixels);
          T* x_grad = k.out<T>(x_grad_at) + pool.first(plane, pixels);
          const int64_t out_first = pool.first(plane, out_pixels(pool.window));
          const T* out = k.in<T>(out_at) + out_first;
          const T* grad = k.in<T>(grad_at) + out_first;
          for (int64_t i = 0; i < pixels; ++i) x_grad[i * step] = T(0);
          each_window(
              pool, [&](int64_t at, const WindowSpan& d, const WindowSpan& h, const WindowSpan& w) {
                if (max) {
                  bool given = false;
                  each_pixel(pool, d, h, w, [&](int64_t pixel) {
                    if (given || x[pixel * step] != out[at * step]) return;
                    x_grad[pixel * step] += grad[at * step];
                    given = true;
                  });
                } else {
                  const T each = grad[at * step] * weight<T>(pool, d, h, w);
                  each_pixel(pool, d, h, w, [&](int64_t pixel) { x_grad[pixel * step] += each; });
                }
              });
        }
      },
      pool.parts());
}

// Mask: the position of each maximum within its plane.
template <class T>
BoundKernel index_forward(const KernelSite& site, int spatial) {
  const Pool pool = pool_site(site, spatial);
  const int out_at = site.out_position("Out"), mask_at = site.out_position("Mask");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(pool.planes());
        const int64_t pixels = out_pixels(pool.window);
        for (int64_t plane = begin; plane < end; ++plane) {
          const T* x = k.in<T>(0) + plane * in_pixels(pool.window);
          each_window(pool, [&](int64_t at, const WindowSpan& d, const WindowSpan& h,
                                const WindowSpan& w) {
            int64_t best = (d.begin * pool.window[1].in + h.begin) * pool.window[2].in + w.begin;
            each_pixel(pool, d, h, w, [&](int64_t pixel) {
              if (larger(x[pixel], x[best])) best = pixel;
            });
            if (k.has_out(out_at)) k.out<T>(out_at)[plane * pixels + at] = x[best];
            if (k.has_out(mask_at)) {
              k.out<int32_t>(mask_at)[plane * pixels + at] = static_cast<int32_t>(best);
            }
          });
        }
      },
      pool.parts());
}

template <class T>
BoundKernel index_backward(const KernelSite& site, int spatial) {
  const Pool pool = pool_site(site, spatial);
  const int mask_at = site.position("Mask"), grad_at = site.position("Out@GRAD"),
            x_grad_at = site.out_position("X@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(pool.planes());
        const int64_t in = in_pixels(pool.window), out = out_pixels(pool.window);
        T* x_grad = k.out<T>(x_grad_at);
        std::fill(x_grad + begin * in, x_grad + end * in, T(0));
        for (int64_t plane = begin; plane < end; ++plane) {
          for (int64_t at = plane * out; at < (plane + 1) * out; ++at) {
            x_grad[plane * in + k.in<int32_t>(mask_at)[at]] += k.in<T>(grad_at)[at];
          }
        }
      },
      pool.parts());
}

using Ints = std::vector<int>;

OpSchema& pool_row(OpSchema& row, int spatial) {
  const auto axes = static_cast<size_t>(spatial);
  return row.in("X", "images, in data_format")
      .out("Out", "one number per window")
      .required_attr<std::string>("pooling_type", "max or avg")
      .one_of({"max", "avg"})
      .required_attr<Ints>("ksize", "the window's size; the size of Out when adaptive")
      .attr("global_pooling", false, "one window that covers the whole image")
      .attr("strides", Ints(axes, 1), "steps of the window")
      .attr("paddings", Ints(axes, 0),
            "room around the image: one number per dimension, or begin and end of each")
      .attr("exclusive", true, "averages leave the padding out")
      .attr("adaptive", false, "ksize is the size of Out")
      .attr("ceil_mode", false, "a last window that sticks out counts too")
      .attr("data_format", spatial == 3 ? "NCDHW" : "NCHW", "where the channels stand")
      .one_of(spatial == 3 ? std::vector<std::string>{"NCDHW", "NDHWC", "AnyLayout"}
                           : std::vector<std::string>{"NCHW", "NHWC", "AnyLayout"})
      .attr("padding_algorithm", "EXPLICIT", "SAME and VALID choose the paddings themselves")
      .one_of({"EXPLICIT", "SAME", "VALID"})
      .shape([spatial](OpView& op) {
        op.set_out("Out", op.in("X").dtype, pool_site(op, spatial).out);
        op.share_lod("X", "Out");
      })
      .kernel(typed<float, double>(
          [spatial]<class T>(const KernelSite& site) { return pool_forward<T>(site, spatial); }))
      .grad({"X", "Out"})
      .grad_kernel(typed<float, double>(
          [spatial]<class T>(const KernelSite& site) { return pool_backward<T>(site, spatial); }))
      .grad_vjp([average = linear_gradient({"X"})](Vjp& v) {
        if (v.attr<std::string>("pooling_type") == "avg") return average(v);
        throw Error(ErrorKind::unimplemented,
                    cat("the gradient of ", v.op().schema().type(), " is not there for maxima"))
            .fix("use averages, or a convolution with strides, where gradients of gradients go");
      });
}

OpSchema& index_row(OpSchema& row, int spatial) {
  const auto axes = static_cast<size_t>(spatial);
  return row
      .in("X", spatial == 3 ? "[batch, channels, depth, height, width]"
                            : "[batch, channels, height, width]")
      .out("Out", "the largest number of each window")
      .out("Mask", "its position in the channel's plane, int32")
      .required_attr<Ints>("ksize", "the window's size; the size of Out when adaptive")
      .attr("global_pooling", false, "one window that covers the whole image")
      .attr("adaptive", false, "ksize is the size of Out")
      .attr("strides", Ints(axes, 1), "steps of the window")
      .attr("paddings", Ints(axes, 0), "room around the image")
      .attr("padding_algorithm", "EXPLICIT", "SAME and VALID choose the paddings themselves")
      .one_of({"EXPLICIT", "SAME", "VALID"})
      .shape([spatial](OpView& op) {
        const Shape out = pool_site(op, spatial).out;
        op.set_out("Out", op.in("X").dtype, out);
        op.set_out("Mask", DType::int32, out);
      })
      .kernel(typed<float, double>(
          [spatial]<class T>(const KernelSite& site) { return index_forward<T>(site, spatial); }))
      .grad({"X", "Mask"})
      .grad_outs({"Out"})
      .grad_kernel(typed<float, double>(
          [spatial]<class T>(const KernelSite& site) { return index_backward<T>(site, spatial); }));
}

OpSample pool_sample(Draw& d, const Shape& x, const char* type, const Ints& sizes, Attrs attrs) {
  attrs["pooling_type"] = std::string(type);
  attrs["ksize"] = sizes;
  return {.inputs = {{"X", {d.distinct(x)}}}, .attrs = std::move(attrs)};
}

}  // namespace

void register_pool(Registry& ops) {
  pool_row(ops.op("pool2d"), 2)
      .traits({.keeps_rows = true, .images = BlockedImages::follows, .layout_attr = "data_format"})
      .attr("is_test", false, "has no effect")
      .sample([](Draw& d) {
        return pool_sample(d, {2, 2, 5, 4}, "max", {2, 2}, {{"strides", Ints{2, 1}}});
      })
      .sample([](Draw& d) {
        return pool_sample(d, {1, 2, 5, 5}, "avg", {3, 3},
                           {{"strides", Ints{2, 2}},
                            {"paddings", Ints{1, 1}},
                            {"exclusive", d.coin()},
                            {"ceil_mode", d.coin()}});
      })
      .sample([](Draw& d) {
        return pool_sample(d, {2, 5, 4, 3}, d.coin() ? "max" : "avg", {3, 2},
                           {{"padding_algorithm", std::string("SAME")},
                            {"strides", Ints{2, 2}},
                            {"data_format", std::string("NHWC")}});
      })
      .sample([](Draw& d) {
        return pool_sample(d, {1, 2, 5, 4}, d.coin() ? "max" : "avg", {3, 3}, {{"adaptive", true}});
      })
      .sample([](Draw& d) {
        return pool_sample(d, {2, 3, 3, 4}, "avg", {1, 1}, {{"global_pooling", true}});
      })
      .sample([](Draw& d) {
        return pool_sample(d, {1, 2, 4, 4}, "max", {3, 3},
                           {{"paddings", Ints{0, 1, 1, 2}}, {"strides", Ints{1, 2}}});
      });
  pool_row(ops.op("pool3d"), 3).sample([](Draw& d) {
    return pool_sample(d, {1, 2, 4, 3, 4}, d.coin() ? "max" : "avg", {2, 2, 2},
                       {{"strides", Ints{2, 1, 2}}, {"paddings", Ints{1, 0, 0}}});
  });
  index_row(ops.op("max_pool2d_with_index"), 2)
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.distinct({2, 2, 5, 4})}}},
            .attrs = {{"ksize", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"paddings", Ints{1, 0}}}};
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.distinct({1, 2, 5, 4})}}},
                        .attrs = {{"ksize", Ints{2, 3}}, {"adaptive", true}}};
      });
  index_row(ops.op("max_pool3d_with_index"), 3).sample([](Draw& d) {
    OpSample sample{.inputs = {{"X", {d.distinct({1, 2, 4, 3, 4})}}},
                    .attrs = {{"ksize", Ints{2, 2, 2}}, {"adaptive", d.coin()}}};
    if (d.coin()) sample.attrs["strides"] = Ints{2, 1, 2};
    return sample;
  });
}

}  // namespace trireme
