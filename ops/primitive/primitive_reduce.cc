// Primitives that fold a tensor along some of its axes, and those that undo a broadcast.
#include <limits>
#include <type_traits>

#include "cpu/tiled_sum.h"
#include "ops/loops.h"
#include "ops/primitive/reduction.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// Sums are kept in double so that many small float terms are not lost.
template <class T>
using SumOf = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <class T, class Acc, class Fold, class Finish>
BoundKernel reduce_kernel(const Shape& shape, const std::vector<int>& axes, Acc start, Fold fold,
                          Finish finish) {
  const ReduceLayout layout(shape, axes);
  const int64_t rows = layout.columns == 0 ? 0 : layout.results / layout.columns;
  const int parts =
      static_cast<int>(std::min<int64_t>(parts_for(shape.count()), std::max<int64_t>(rows, 1)));
  return {[=](const KernelArgs& k) {
            reduce_elements<T>(layout, k.in<T>(0), k.out<T>(0), k.range(rows), start, fold, finish);
          },
          parts};
}

std::vector<int> primitive_axes(const OpView& op) {
  return normal_axes(op, op.attr<std::vector<int32_t>>("axes"), op.in("A").shape.rank(), "axes");
}

void reduce_rule(OpView& op) {
  const ValueInfo& a = op.in("A");
  const bool keep = op.attr<bool>("keep");
  const std::vector<int> axes = primitive_axes(op);
  Shape out;
  size_t next = 0;
  for (int d = 0; d < a.shape.rank(); ++d) {
    const bool reduced = next < axes.size() && axes[next] == d;
    if (reduced) ++next;
    if (!reduced) out.push_back(a.shape[d]);
    if (reduced && keep) out.push_back(1);
  }
  op.set_out("Out", a.dtype, out);
  const bool rows_stay = axes.empty() || axes[0] != 0;
  if (rows_stay) carry_lod(op, "Out", {"A"});
}

OpSchema& reduction(Registry& ops, const char* name, const char* doc, KernelMake make) {
  return ops.primitive(name)
      .doc(doc)
      .in("A", "any shape")
      .out("Out", doc)
      .attr("axes", std::vector<int32_t>{}, "which to fold; empty: all")
      .attr("keep", false, "folded axes stay, with extent 1")
      .shape(reduce_rule)
      .kernel(std::move(make));
}

// A result or its gradient with the folded axes back, so that it broadcasts with the operand.
Expr with_axes(const Vjp& v, Expr value) {
  if (v.attr<bool>("keep")) return value;
  const int rank = v.in(0).rank();
  std::vector<int> axes;
  for (const int32_t axis : v.attr<std::vector<int32_t>>("axes")) {
    axes.push_back(axis < 0 ? axis + rank : axis);
  }
  for (int d = 0; axes.empty() && d < rank; ++d) axes.push_back(d);
  return unsqueeze(value, axes);
}

void to_all_equal(Vjp& v) {
  const Expr chosen = equal(v.in(0), with_axes(v, v.out()));
  v.set(0, select(chosen, with_axes(v, v.grad()), constant(v.grad(), 0.0)));
}

template <class T, class Pick>
BoundKernel extreme_kernel(const KernelSite& site, const char* what, T start, Pick pick) {
  const Shape& shape = site.in("A").shape;
  const std::vector<int> axes = primitive_axes(site);
  if (site.out("Out").shape.count() > 0 && shape.count() == 0) {
    throw site.error(cat("the ", what, " of no elements is asked for: A has shape ", shape))
        .fix("give the reduced axes at least one element");
  }
  return reduce_kernel<T>(shape, axes, start, pick, [](T value) { return value; });
}

template <class T>
struct SumFold {
  SumOf<T> operator()(SumOf<T> acc, T x) const { return acc + static_cast<SumOf<T>>(x); }
};

template <>
struct SumFold<float> {
  double operator()(double acc, float x) const { return acc + static_cast<double>(x); }
  double run(double acc, const float* x, int64_t n) const { return acc + sum_of(x, n); }
};

BoundKernel tiled_sum_kernel(const TiledSum& sum, double divisor) {
  BoundKernel made(
      [sum, divisor](const KernelArgs& k) {
        const auto [first, last] = k.range(sum.chunks());
        for (int64_t chunk = first; chunk < last; ++chunk) {
          const TiledSum::Lines lines = sum.lines_of(chunk);
          sum.add(lines, k.in<float>(0) + sum.begin(lines.first), sum.start(chunk, k.scratch));
        }
        if (sum.chunks() == 1) sum.finish(k.scratch, divisor, k.out<float>(0));
      },
      static_cast<int>(sum.chunks()));
  made.scratch = sum.scratch();
  if (sum.chunks() == 1) return made;
  made.then.emplace_back(
      [sum, divisor](const KernelArgs& k) { sum.finish(k.scratch, divisor, k.out<float>(0)); });
  return made;
}

template <class T>
BoundKernel primitive_sum(const Shape& shape, const std::vector<int>& axes) {
  if (std::is_same_v<T, float>) {
    if (const auto tiled = TiledSum::make(shape, axes)) return tiled_sum_kernel(*tiled, 1);
  }
  return reduce_kernel<T>(shape, axes, SumOf<T>(0), SumFold<T>(), [](SumOf<T> acc) { return acc; });
}

template <class T>
BoundKernel primitive_mean(const Shape& shape, const std::vector<int>& axes) {
  const auto n = static_cast<double>(ReduceLayout(shape, axes).folded);
  if (std::is_same_v<T, float>) {
    if (const auto tiled = TiledSum::make(shape, axes)) return tiled_sum_kernel(*tiled, n);
  }
  return reduce_kernel<T>(shape, axes, 0.0, SumFold<T>(), [n](double acc) { return acc / n; });
}

void register_sums(Registry& ops) {
  reduction(ops, "p.sum", "sum",
            typed_by<float, double, int32_t, int64_t>(
                "A",
                []<class T>(const KernelSite& site) {
                  return primitive_sum<T>(site.in("A").shape, primitive_axes(site));
                }))
      .traits({.sums = true})
      .vjp([](Vjp& v) { v.set(0, broadcast_like(with_axes(v, v.grad()), v.in(0))); });

  reduction(ops, "p.mean", "arithmetic mean",
            typed_by<float, double>("A",
                                    []<class T>(const KernelSite& site) {
                                      return primitive_mean<T>(site.in("A").shape,
                                                               primitive_axes(site));
                                    }))
      .traits({.sums = true, .averages = true})
      .vjp([](Vjp& v) {
        const Expr share = v.grad() / emit("p.size_ratio", {v.in(0), v.out()});
        v.set(0, broadcast_like(with_axes(v, share), v.in(0)));
      });

  ops.primitive("p.size_ratio")
      .in("A", "any shape")
      .in("B", "any shape")
      .out("Out", "how often B's element count goes into A's: one number of A's type, rank 0")
      .shape([](OpView& op) { op.set_out("Out", op.in("A").dtype, Shape{}); })
      .vjp(no_gradient)
      .kernel(untyped([](const KernelSite& site) {
        const auto large = static_cast<double>(site.in("A").shape.count());
        const auto small = static_cast<double>(site.in("B").shape.count());
        return [ratio = large / small](const KernelArgs& k) { fill(k.out(0), ratio, 0, 1); };
      }));
}

// Product of all other elements along the axes: prefix products from both ends, no division.
template <class T>
BoundKernel prod_except_kernel(const KernelSite& site) {
  const ReduceLayout layout(site.in("A").shape, primitive_axes(site));
  const int64_t rows = layout.columns == 0 ? 0 : layout.results / layout.columns;
  BoundKernel kernel([=](const KernelArgs& k) {
    const T* in = k.in<T>(0);
    T* out = k.out<T>(0);
    auto* places = reinterpret_cast<int64_t*>(k.scratch);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < layout.columns; ++column) {
        int64_t count = 0;
        ReduceLayout::each(layout.reduced, layout.row_start(row) + column, [&](int64_t offset) {
          for (int64_t i = 0; i < layout.run; ++i) places[count++] = offset + i;
        });
        T before = 1, after = 1;
        for (int64_t i = 0; i < count; ++i) {
          out[places[i]] = before;
          before *= in[places[i]];
        }
        for (int64_t i = count; i > 0; --i) {
          out[places[i - 1]] *= after;
          after *= in[places[i - 1]];
        }
      }
    }
  });
  kernel.scratch = static_cast<size_t>(layout.folded) * sizeof(int64_t);
  return kernel;
}

// The gradient of prod_except: for element k the sum over all others i of B[i] times the product of
// all but these two. From both ends: the product so far, and the sum of the products so far without
// one element.
template <class T>
BoundKernel prod_except_grad_kernel(const KernelSite& site) {
  const ReduceLayout layout(site.in("A").shape, primitive_axes(site));
  const int64_t rows = layout.columns == 0 ? 0 : layout.results / layout.columns;
  BoundKernel kernel([=](const KernelArgs& k) {
    const T *a = k.in<T>(0), *b = k.in<T>(1);
    T* out = k.out<T>(0);
    auto* places = reinterpret_cast<int64_t*>(k.scratch);
    auto* products = reinterpret_cast<double*>(places + layout.folded);
    double* sums = products + layout.folded;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < layout.columns; ++column) {
        int64_t count = 0;
        ReduceLayout::each(layout.reduced, layout.row_start(row) + column, [&](int64_t offset) {
          for (int64_t i = 0; i < layout.run; ++i) places[count++] = offset + i;
        });
        double product = 1, sum = 0;
        const auto pass = [&](int64_t place) {
          sum = sum * static_cast<double>(a[place]) + static_cast<double>(b[place]) * product;
          product *= static_cast<double>(a[place]);
        };
        for (int64_t i = 0; i < count; ++i) {
          products[i] = product;
          sums[i] = sum;
          pass(places[i]);
        }
        product = 1, sum = 0;
        for (int64_t i = count; i-- > 0;) {
          out[places[i]] = static_cast<T>(sums[i] * product + products[i] * sum);
          pass(places[i]);
        }
      }
    }
  });
  kernel.scratch = static_cast<size_t>(layout.folded) * (sizeof(int64_t) + 2 * sizeof(double));
  return kernel;
}

void register_products(Registry& ops) {
  reduction(ops, "p.prod", "product",
            typed_by<float, double, int32_t, int64_t>(
                "A",
                []<class T>(const KernelSite& site) {
                  using Acc = SumOf<T>;
                  return reduce_kernel<T>(
                      site.in("A").shape, primitive_axes(site), Acc(1),
                      [](Acc acc, T x) { return acc * static_cast<Acc>(x); },
                      [](Acc acc) { return acc; });
                }))
      .vjp([](Vjp& v) {
        const Expr others =
            emit("p.prod_except", {v.in(0)}, {{"axes", v.attr<std::vector<int32_t>>("axes")}});
        v.set(0, with_axes(v, v.grad()) * others);
      });

  ops.primitive("p.prod_except")
      .in("A", "any shape")
      .out("Out", "for each element, the product of the others along the axes")
      .attr("axes", std::vector<int32_t>{}, "empty: all")
      .shape([](OpView& op) { op.set_out("Out", op.in("A").dtype, op.in("A").shape); })
      .vjp([](Vjp& v) {
        v.set(0, emit("p.prod_except_grad", {v.in(0), v.grad()},
                      {{"axes", v.attr<std::vector<int32_t>>("axes")}}));
      })
      .kernel(typed_by<float, double>(
          "A", []<class T>(const KernelSite& site) { return prod_except_kernel<T>(site); }));
  ops.primitive("p.prod_except_grad")
      .in("A", "any shape")
      .in("B", "A's shape: the gradient of prod_except of A")
      .out("Out", "the gradient of A")
      .attr("axes", std::vector<int32_t>{}, "empty: all")
      .shape([](OpView& op) { op.set_out("Out", op.in("A").dtype, op.in("A").shape); })
      .kernel(typed_by<float, double>(
          "A", []<class T>(const KernelSite& site) { return prod_except_grad_kernel<T>(site); }));
}

void register_extremes(Registry& ops) {
  reduction(ops, "p.reduce_max", "largest element",
            typed_by<float, double, int32_t, int64_t>(
                "A",
                []<class T>(const KernelSite& site) {
                  using Limits = std::numeric_limits<T>;
                  const T start = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
                  return extreme_kernel<T>(site, "largest", start,
                                           [](T acc, T x) { return x > acc || x != x ? x : acc; });
                }))
      .vjp(to_all_equal);
  reduction(ops, "p.reduce_min", "smallest element",
            typed_by<float, double, int32_t, int64_t>(
                "A",
                []<class T>(const KernelSite& site) {
                  using Limits = std::numeric_limits<T>;
                  const T start = Limits::has_infinity ? Limits::infinity() : Limits::max();
                  return extreme_kernel<T>(site, "smallest", start,
                                           [](T acc, T x) { return x < acc || x != x ? x : acc; });
                }))
      .vjp(to_all_equal);
  reduction(ops, "p.all", "whether every element holds",
            typed_by<bool>("A", []<class T>(const KernelSite& site) {
              return reduce_kernel<T>(
                  site.in("A").shape, primitive_axes(site), true,
                  [](bool acc, bool x) { return acc && x; }, [](bool acc) { return acc; });
            }));
  reduction(ops, "p.any", "whether some element holds",
            typed_by<bool>("A", []<class T>(const KernelSite& site) {
              return reduce_kernel<T>(
                  site.in("A").shape, primitive_axes(site), false,
                  [](bool acc, bool x) { return acc || x; }, [](bool acc) { return acc; });
            }));
}

void sum_to_rule(OpView& op) {
  const ValueInfo& like = op.in("B");
  op.set_out("Out", op.in("A").dtype, like.shape);
  carry_lod(op, "Out", {"B", "A"});
}

template <class T>
BoundKernel sum_to_kernel(const KernelSite& site) {
  const Shape& from = site.in("A").shape;
  const Shape& to = site.in("B").shape;
  const int shift = from.rank() - to.rank();
  std::vector<int> axes;
  for (int d = 0; d < from.rank(); ++d) {
    const int64_t wanted = d < shift ? 1 : to.at(d - shift);
    if (wanted == from.at(d)) continue;
    if (wanted != 1) {
      throw InternalError(cat("a value of shape ", from, " is no broadcast of ", to));
    }
    axes.push_back(d);
  }
  return primitive_sum<T>(from, axes);
}

BoundKernel broadcast_kernel(const KernelSite& site) {
  const Shape& out = site.out("Out").shape;
  broadcast_shapes(site, site.in("A").shape, out, -1);
  const Walk<1> walk(out, {broadcast_strides(site.in("A").shape, out)});
  return by_size(site.in("A").dtype, [&]<class T>() {
    return BoundKernel(
        [walk](const KernelArgs& k) {
          const T* in = raw_as<T>(k.in(0));
          T* result = raw_as<T>(k.out(0));
          const int64_t step = walk.step(0);
          walk.runs(k.range(walk.count()), [&](int64_t at, const auto& offset, int64_t n) {
            const T* from = in + offset[0];
            if (step == 0) {
              std::fill_n(result + at, n, *from);
            } else {
              for (int64_t i = 0; i < n; ++i) result[at + i] = from[i * step];
            }
          });
        },
        parts_for(walk.count()));
  });
}

void register_broadcasts(Registry& ops) {
  ops.primitive("p.broadcast_like")
      .traits({.like = 1, .images = BlockedImages::any})
      .in("A", "any shape that broadcasts to B's")
      .in("B", "its shape is taken")
      .out("Out", "A repeated to the shape of B")
      .renames("A", "Out")
      .shape([](OpView& op) {
        op.set_out("Out", op.in("A").dtype, op.in("B").shape);
        carry_lod(op, "Out", {"B", "A"});
      })
      .vjp([](Vjp& v) { v.set(0, sum_to_like(v.grad(), v.in(0))); })
      .kernel(untyped(broadcast_kernel));
  ops.primitive("p.sum_to_like")
      .traits({.like = 1, .sums = true, .images = BlockedImages::any})
      .in("A", "a value to which B would broadcast")
      .in("B", "its shape is taken")
      .out("Out", "A added up along the dimensions in which B was repeated")
      .renames("A", "Out")
      .shape(sum_to_rule)
      .vjp([](Vjp& v) { v.set(0, broadcast_like(v.grad(), v.in(0))); })
      .kernel(typed_by<float, double, int32_t, int64_t>(
          "A", []<class T>(const KernelSite& site) { return sum_to_kernel<T>(site); }));
}

}  // namespace

void register_primitive_reduce(Registry& ops) {
  register_sums(ops);
  register_products(ops);
  register_extremes(ops);
  register_broadcasts(ops);
}

}  // namespace trireme
