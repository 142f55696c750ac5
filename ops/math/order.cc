// Elements by order: top_k, argsort, arg_max and arg_min.
#include <algorithm>
#include <numeric>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// One axis of a tensor as lines: line l holds `length` elements, `step` apart.
struct Lines {
  int64_t count = 0, length = 0, step = 1;

  Lines(const Shape& shape, int axis)
      : count(shape.product(0, axis).value() * shape.product(axis + 1, shape.rank()).value()),
        length(shape.at(axis)),
        step(shape.product(axis + 1, shape.rank()).value()) {}
  int64_t start(int64_t line) const { return line / step * step * length + line % step; }
};

// Whether `a` comes before `b`: NaN counts as the largest, equals keep their order.
template <class T>
bool before(T a, int64_t a_index, T b, int64_t b_index, bool descending) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan != b_nan) return a_nan == descending;
  if (!a_nan && a != b) return descending ? a > b : a < b;
  return a_index < b_index;
}

// The first k of each line in order, with their places. k == length sorts. Every part orders the
// places of a line in scratch of its own.
template <class T>
BoundKernel order_kernel(const KernelSite& site, int axis, bool descending) {
  const Lines from(site.in("X").shape, axis);
  const Lines to(site.out("Out").shape, axis);
  const int x_at = site.position("X");
  const int out_at = site.out_position("Out"), indices_at = site.out_position("Indices");
  BoundKernel kernel(
      [=](const KernelArgs& k) {
        int64_t* order = reinterpret_cast<int64_t*>(k.scratch) + k.part * from.length;
        const auto [begin, end] = k.range(from.count);
        for (int64_t line = begin; line < end; ++line) {
          const T* x = k.in<T>(x_at) + from.start(line);
          std::iota(order, order + from.length, int64_t{0});
          std::partial_sort(order, order + to.length, order + from.length,
                            [&](int64_t a, int64_t b) {
                              return before(x[a * from.step], a, x[b * from.step], b, descending);
                            });
          for (int64_t i = 0; i < to.length; ++i) {
            const int64_t place = order[i], at = to.start(line) + i * to.step;
            if (k.has_out(out_at)) k.out<T>(out_at)[at] = x[place * from.step];
            if (k.has_out(indices_at)) k.out<int64_t>(indices_at)[at] = place;
          }
        }
      },
      static_cast<int>(std::clamp<int64_t>(from.count / 16, 1, 64)));
  kernel.scratch = static_cast<size_t>(kernel.parts * from.length) * sizeof(int64_t);
  return kernel;
}

// Each gradient goes back to the place its value came from; all other places get zero.
template <class T>
BoundKernel order_grad_kernel(const KernelSite& site, int axis) {
  const Lines from(site.in("Out@GRAD").shape, axis);
  const Lines to(site.out("X@GRAD").shape, axis);
  const int grad_at = site.position("Out@GRAD"), indices_at = site.position("Indices");
  const int64_t total = site.out("X@GRAD").shape.count();
  return [=](const KernelArgs& k) {
    const T* grad = k.in<T>(grad_at);
    const auto* indices = k.in<int64_t>(indices_at);
    T* out = k.out<T>(0);
    std::fill_n(out, total, T{0});
    for (int64_t line = 0; line < from.count; ++line) {
      for (int64_t i = 0; i < from.length; ++i) {
        const int64_t at = from.start(line) + i * from.step;
        out[to.start(line) + indices[at] * to.step] += grad[at];
      }
    }
  };
}

int order_axis(const OpView& op, const Shape& shape) {
  if (!op.has_attr("axis")) return shape.rank() - 1;
  return normal_axis(op, static_cast<int>(op.attr<int32_t>("axis")), shape.rank());
}

void top_k_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int axis = order_axis(op, x.shape);
  Dim k = op.attr<int32_t>("k");
  if (op.has("K")) {
    const std::vector<int64_t> read = read_ints(op, "K");
    k = read.empty() ? Dim() : Dim(read[0]);
  }
  if (k.known() && (k.value() < 1 || (x.shape[axis].known() && k.value() > x.shape.at(axis)))) {
    throw op
        .error(cat("k is ", k, " but dimension ", axis, " of X ", x.shape, " has ", x.shape[axis],
                   " elements"))
        .fix("choose k from 1 to that number");
  }
  Shape out = x.shape;
  out[axis] = k;
  op.set_out("Out", x.dtype, out);
  op.set_out("Indices", DType::int64, out);
  carry_lod(op, "Out", {"X"});
  carry_lod(op, "Indices", {"X"});
}

OpSchema& with_order_grad(OpSchema& row) {
  return row.grad({"X", "Indices"})
      .grad_outs({"Out"})
      .grad_kernel(typed_by<float, double>("Out@GRAD", []<class T>(const KernelSite& site) {
        return order_grad_kernel<T>(site, order_axis(site, site.in("X").shape));
      }));
}

void register_top_k(Registry& ops) {
  OpSchema& old =
      ops.op("top_k")
          .in("X", "any shape")
          .in_optional("K", "one whole number; used instead of k")
          .out("Out", "the k largest of each row, largest first")
          .out("Indices", "their places, int64")
          .attr("k", 1, "how many")
          .shape(top_k_shape)
          .kernel(typed_by<float, double, int32_t, int64_t>(
              "X",
              []<class T>(const KernelSite& site) {
                return order_kernel<T>(site, order_axis(site, site.in("X").shape), true);
              }))
          .no_grad({"K"})
          .traits({.reads_values = {"K"}});
  with_order_grad(old).sample([](Draw& d) {
    const Shape x = d.shape(1, 3);
    const auto k = static_cast<int32_t>(d.size(1, x.back().value()));
    return OpSample{.inputs = {{"X", {d.distinct(x)}}}, .attrs = {{"k", k}}};
  });

  OpSchema& row = ops.op("top_k_v2")
                      .in("X", "any shape")
                      .in_optional("K", "one whole number; used instead of k")
                      .out("Out", "the k largest (or smallest) along the axis, in order")
                      .out("Indices", "their places, int64")
                      .attr("k", 1, "how many")
                      .attr("axis", -1, "the dimension to search")
                      .attr("largest", true, "the largest; else the smallest")
                      .attr("sorted", true, "results are in order either way")
                      .shape(top_k_shape)
                      .kernel(typed_by<float, double, int32_t, int64_t>(
                          "X",
                          []<class T>(const KernelSite& site) {
                            return order_kernel<T>(site, order_axis(site, site.in("X").shape),
                                                   site.attr<bool>("largest"));
                          }))
                      .no_grad({"K"})
                      .traits({.reads_values = {"K"}});
  with_order_grad(row).sample([](Draw& d) {
    const Shape x = d.shape(1, 3);
    const auto axis = static_cast<int32_t>(d.size(0, x.rank() - 1));
    const auto k = static_cast<int32_t>(d.size(1, x.at(axis)));
    return OpSample{.inputs = {{"X", {d.distinct(x)}}},
                    .attrs = {{"k", k}, {"axis", axis}, {"largest", d.coin()}}};
  });

  OpSchema& sort = ops.op("argsort")
                       .in("X", "any shape")
                       .out("Out", "X in order along the axis")
                       .out("Indices", "where each value was, int64")
                       .attr("axis", -1, "the dimension to sort")
                       .attr("descending", false, "largest first")
                       .shape([](OpView& op) {
                         order_axis(op, op.in("X").shape);
                         op.set_out_like("Out", op.in("X"));
                         op.set_out_like("Indices", op.in("X"));
                         if (op.wants("Indices")) op.out("Indices").dtype = DType::int64;
                       })
                       .kernel(typed_by<float, double, int32_t, int64_t>(
                           "X", []<class T>(const KernelSite& site) {
                             return order_kernel<T>(site, order_axis(site, site.in("X").shape),
                                                    site.attr<bool>("descending"));
                           }));
  with_order_grad(sort).sample([](Draw& d) {
    const Shape x = d.shape(1, 3);
    const auto axis = static_cast<int32_t>(d.size(-x.rank(), x.rank() - 1));
    return OpSample{.inputs = {{"X", {d.distinct(x)}}},
                    .attrs = {{"axis", axis}, {"descending", d.coin()}}};
  });
}

// ---- arg_max, arg_min

int arg_axis(const OpView& op) {
  return normal_axis(op, static_cast<int>(op.attr<int64_t>("axis")), op.in("X").shape.rank());
}

void arg_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int axis = arg_axis(op);
  Shape out = x.shape;
  if (op.attr<bool>("keepdims")) {
    out[axis] = 1;
  } else {
    out.erase(axis);
  }
  if (out.rank() == 0) out = {1};
  const DType dtype = op.attr<int32_t>("dtype") < 0 ? DType::int64 : dtype_attr(op, "dtype");
  if (!is_integer(dtype)) {
    throw op.error(cat("dtype is ", name_of(dtype))).fix("use int32 or int64");
  }
  op.set_out("Out", dtype, out);
}

template <class T>
BoundKernel arg_kernel(const KernelSite& site, bool largest) {
  const Lines lines(site.in("X").shape, arg_axis(site));
  if (lines.length == 0 && lines.count > 0) {
    throw site.error(cat("X ", site.in("X").shape, " has no elements along the axis"))
        .fix("give X at least one element there");
  }
  const bool narrow = site.out("Out").dtype == DType::int32;
  return [=](const KernelArgs& k) {
    for (int64_t line = 0; line < lines.count; ++line) {
      const T* x = k.in<T>(0) + lines.start(line);
      int64_t best = 0;
      for (int64_t i = 1; i < lines.length; ++i) {
        if (before(x[i * lines.step], i, x[best * lines.step], best, largest)) best = i;
      }
      if (narrow) {
        k.out<int32_t>(0)[line] = static_cast<int32_t>(best);
      } else {
        k.out<int64_t>(0)[line] = best;
      }
    }
  };
}

void register_args(Registry& ops) {
  for (const bool largest : {true, false}) {
    ops.op(largest ? "arg_max" : "arg_min")
        .in("X", "any shape")
        .out("Out", largest ? "place of the largest" : "place of the smallest")
        .required_attr<int64_t>("axis", "the dimension to search")
        .attr("keepdims", false, "the searched dimension stays, with extent 1")
        .attr("dtype", -1, "int32 or int64; -1: int64")
        .shape(arg_shape)
        .kernel(typed_by<float, double, int32_t, int64_t>(
            "X",
            [largest]<class T>(const KernelSite& site) { return arg_kernel<T>(site, largest); }));
  }
}

}  // namespace

void register_order(Registry& ops) {
  register_top_k(ops);
  register_args(ops);
}

}  // namespace trireme
